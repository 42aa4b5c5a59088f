import pytest

from wharfinger.domain.errors import Forbidden
from wharfinger.manager.access.permissions import Ownership, Rule, require
from wharfinger.manager.access.principal import Principal, Role

ROOT = Principal("1", "root", Role.SUPERADMIN)
ANN = Principal("2", "ann", Role.USER)


@pytest.mark.parametrize("rule", list(Rule))
def test_a_superadmin_meets_every_rule(rule: Rule) -> None:
    require(rule, ROOT, "it")


def test_a_refusal_says_what_is_missing() -> None:
    with pytest.raises(Forbidden, match="Only a superadmin may use removeUser") as caught:
        require(Rule.SUPERADMIN, ANN, "removeUser")
    assert caught.value.detail == {"needs": "superadmin", "role": "user"}


def test_an_owner_has_their_own_and_a_superadmin_everything() -> None:
    own = Ownership(ANN)
    assert not own.asked
    own.require(ANN.user_id, "Task 7")
    assert own.asked
    assert own.only() == ANN.user_id
    with pytest.raises(Forbidden, match="Task 8 belongs to somebody else"):
        own.require("3", "Task 8")
    Ownership(ROOT).require("3", "Task 8")
    assert Ownership(ROOT).only() is None
