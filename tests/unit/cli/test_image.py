"""Which agents a command line means, and how those of an image are told."""

import click
import pytest

from wharfinger.cli.image import _places, chosen_selectors
from wharfinger.client.shapes import ImageOnAgent


def test_selectors_are_repeated_and_separated_by_commas() -> None:
    given = ("sgroup:a, sgroup:b", "x", "x,")
    assert chosen_selectors(given, all_agents=False) == ["sgroup:a", "sgroup:b", "x"]


def test_all_agents_is_the_star() -> None:
    assert chosen_selectors((), all_agents=True) == ["*"]


@pytest.mark.parametrize(("given", "every"), [((), False), ((" ,",), False), (("a",), True)])
def test_neither_or_both_is_a_usage_error_that_teaches(given: tuple[str, ...], every: bool) -> None:
    with pytest.raises(click.UsageError, match="--all-agents"):
        chosen_selectors(given, all_agents=every)


def on(count: int, status: str = "present") -> list[ImageOnAgent]:
    return [{"agentId": f"{status}-{n}", "status": status, "size": 1} for n in range(count)]


def test_few_agents_are_named_and_many_counted() -> None:
    assert _places([]) == "-"
    assert _places(on(2) + on(1, "pulling")) == "present-0, present-1, pulling-0 (pulling)"
    assert _places(on(500) + on(2, "pulling")) == "502 agents, 2 of them pulling"
