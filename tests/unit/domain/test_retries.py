"""What follows a session's failed attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.failures import RETRY_DELAYS, Failure, FailureClass, Scope
from wharfinger.domain.retries import (
    MOST_AGENTS,
    PATIENCE_SECONDS,
    Again,
    Elsewhere,
    GiveUp,
    Verdict,
    after_failure,
)

classes = st.sampled_from(FailureClass)


def verdict(
    kind: FailureClass,
    *,
    tries: int = 1,
    agents_failed: int = 0,
    others: bool = True,
    failing_for: float = 0.0,
) -> Verdict:
    return after_failure(
        Failure(kind, "m"),
        tries=tries,
        agents_failed=agents_failed,
        others=others,
        failing_for=failing_for,
    )


@given(classes, st.integers(1, 9), st.integers(0, 3), st.booleans(), st.floats(0, 1000))
def test_what_everybody_would_meet_ends_it_at_once(
    kind: FailureClass, tries: int, agents_failed: int, others: bool, failing_for: float
) -> None:
    given_up = verdict(
        kind, tries=tries, agents_failed=agents_failed, others=others, failing_for=failing_for
    )
    if Failure(kind, "").scope is Scope.IMAGE:
        assert given_up == GiveUp()


@given(classes, st.integers(1, 9), st.integers(0, 3), st.booleans(), st.floats(0, 59.9))
def test_what_may_pass_ends_nothing_within_a_minute(
    kind: FailureClass, tries: int, agents_failed: int, others: bool, failing_for: float
) -> None:
    said = verdict(
        kind, tries=tries, agents_failed=agents_failed, others=others, failing_for=failing_for
    )
    if Failure(kind, "").scope is Scope.TRANSIENT:
        assert said != GiveUp()


@given(classes, st.integers(1, 9), st.integers(MOST_AGENTS - 1, 9), st.booleans())
def test_no_further_agent_is_tried_than_allowed(
    kind: FailureClass, tries: int, agents_failed: int, others: bool
) -> None:
    said = verdict(kind, tries=tries, agents_failed=agents_failed, others=others)
    assert said != Elsewhere()


@given(classes, st.integers(len(RETRY_DELAYS) + 1, 9), st.booleans())
def test_after_enough_of_tries_and_time_it_is_over_here(
    kind: FailureClass, tries: int, others: bool
) -> None:
    said = verdict(kind, tries=tries, others=others, failing_for=PATIENCE_SECONDS)
    assert not isinstance(said, Again)


@pytest.mark.parametrize(("tries", "delay"), [(1, 1.0), (2, 5.0), (3, 15.0)])
def test_what_may_pass_is_tried_three_times_more_on_the_agent(tries: int, delay: float) -> None:
    assert verdict(FailureClass.NETWORK, tries=tries) == Again(delay)


def test_then_another_agent_is_tried() -> None:
    assert verdict(FailureClass.NETWORK, tries=4) == Elsewhere()


def test_what_the_agent_alone_cannot_do_is_tried_elsewhere_at_once_if_there_is_another() -> None:
    assert verdict(FailureClass.NO_SPACE) == Elsewhere()
    assert verdict(FailureClass.NO_SPACE, others=False) == GiveUp()


def test_an_agent_that_does_not_answer_is_left_for_another_at_once() -> None:
    assert verdict(FailureClass.AGENT_LOST) == Elsewhere()
    assert verdict(FailureClass.AGENT_LOST, others=False) == Again(1.0)


def test_what_the_registry_asked_for_wins() -> None:
    slow = Failure(FailureClass.RATE_LIMITED, "m", retry_after=40.0)
    for tries in (1, 4):
        said = after_failure(slow, tries=tries, agents_failed=0, others=False, failing_for=1.0)
        assert said == Again(40.0)
