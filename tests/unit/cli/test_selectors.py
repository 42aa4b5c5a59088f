"""Which agents a command line means."""

import click
import pytest

from wharfinger.cli.image import chosen_selectors


def test_selectors_are_repeated_and_separated_by_commas() -> None:
    given = ("sgroup:a, sgroup:b", "x", "x,")
    assert chosen_selectors(given, all_agents=False) == ["sgroup:a", "sgroup:b", "x"]


def test_all_agents_is_the_star() -> None:
    assert chosen_selectors((), all_agents=True) == ["*"]


@pytest.mark.parametrize(("given", "every"), [((), False), ((" ,",), False), (("a",), True)])
def test_neither_or_both_is_a_usage_error_that_teaches(given: tuple[str, ...], every: bool) -> None:
    with pytest.raises(click.UsageError, match="--all-agents"):
        chosen_selectors(given, all_agents=every)
