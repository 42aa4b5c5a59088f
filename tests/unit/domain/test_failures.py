import pytest

from wharfinger.domain.failures import (
    RETRY_DELAYS,
    SCOPES,
    Failure,
    FailureClass,
    FailureError,
    Scope,
    met_after_resolving,
    retry_delay,
)


def test_every_class_has_a_scope() -> None:
    assert set(SCOPES) == set(FailureClass)


@pytest.mark.parametrize("failure_class", FailureClass)
def test_only_what_may_pass_is_tried_again(failure_class: FailureClass) -> None:
    failure = Failure(failure_class, "no")
    delays = [retry_delay(failure, tries) for tries in range(1, 5)]
    if SCOPES[failure_class] is Scope.TRANSIENT:
        assert delays == [*RETRY_DELAYS, None]
    else:
        assert delays == [None] * 4


def test_what_the_registry_asks_for_wins_upwards() -> None:
    asked = Failure(FailureClass.RATE_LIMITED, "slow down", retry_after=7.0)
    assert [retry_delay(asked, tries) for tries in (1, 2, 3)] == [7.0, 7.0, 15.0]


def test_an_engine_that_does_not_find_what_was_resolved_does_not_deny_the_image() -> None:
    met = met_after_resolving(Failure(FailureClass.NOT_FOUND, "no", "manifest unknown"))
    assert met.failure_class is FailureClass.REGISTRY_ERROR
    assert met.detail == "manifest unknown"
    network = Failure(FailureClass.NETWORK, "no")
    assert met_after_resolving(network) is network


def test_a_failure_before_anything_exists_has_the_failures_class() -> None:
    error = FailureError(Failure(FailureClass.NOT_FOUND, "no such tag", "raw"), reference="a:b")
    assert error.to_json() == {
        "class": "not-found",
        "message": "no such tag",
        "detail": {"raw": "raw", "reference": "a:b"},
    }
