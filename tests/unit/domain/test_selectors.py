from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.errors import NoAgents, UnknownSelector
from wharfinger.domain.selectors import select


@dataclass(frozen=True)
class Agent:
    id: str
    scaling_group: str


FLEET = [Agent("b-1", "b"), Agent("a-2", "a"), Agent("a-1", "a")]


def chosen(*selectors: str) -> list[str]:
    return [agent.id for agent in select(selectors, FLEET)]


def test_a_star_means_every_agent() -> None:
    assert chosen("*") == ["a-1", "a-2", "b-1"]


def test_a_scaling_group_means_its_agents() -> None:
    assert chosen("sgroup:a") == ["a-1", "a-2"]


def test_an_id_means_that_agent() -> None:
    assert chosen("b-1") == ["b-1"]


def test_an_agent_named_twice_is_meant_once() -> None:
    assert chosen("a-1", "sgroup:a", "*", "a-1") == ["a-1", "a-2", "b-1"]


def test_an_unknown_selector_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownSelector) as refused:
        chosen("a-1", "sgroup:c", "A-1")
    assert refused.value.detail["unknown"] == ["sgroup:c", "A-1"]
    assert refused.value.detail["known"] == ["*", "sgroup:a", "sgroup:b", "a-1", "a-2", "b-1"]
    assert "'sgroup:c'" in refused.value.message
    assert "sgroup:a" in refused.value.message


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(NoAgents):
        select(["*"], [])


@given(st.lists(st.sampled_from(["*", "sgroup:a", "sgroup:b", "a-1", "a-2", "b-1"]), min_size=1))
def test_what_is_selected_is_the_union_of_what_each_selects(selectors: list[str]) -> None:
    union = {agent.id for selector in selectors for agent in select([selector], FLEET)}
    assert chosen(*selectors) == sorted(union)
