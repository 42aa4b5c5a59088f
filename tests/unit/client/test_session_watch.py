"""What an event changes of a session."""

import json
from typing import Any

import pytest
from rig.session_answers import kernel, pull, session, transition

from wharfinger.client.session_watch import SessionEvent
from wharfinger.client.sse import Event


def event(kind: str, data: Any) -> SessionEvent:
    return SessionEvent.parse(Event("1-1", kind, json.dumps(data)))


def kernel_event(made: Any, moved: Any = None, **more: Any) -> SessionEvent:
    told = {key: value for key, value in made.items() if key != "transitions"}
    return event(
        "kernel_updated",
        {"sessionId": "s1", "kernelId": made["id"], "transition": moved, "kernel": told, **more},
    )


def test_a_kernel_that_moved_moves_its_session_and_lengthens_its_log() -> None:
    first = transition("PENDING", "SCHEDULED")
    before = session(kernel("SCHEDULED", transitions=[first]), kernel("PULLING", "k2"))
    moved = transition("SCHEDULED", "PREPARING")
    after = kernel_event(kernel("PREPARING"), moved).apply(before)
    assert after["kernels"][0]["transitions"] == [first, moved]
    assert after["status"] == "PULLING"
    last = kernel_event(kernel("PREPARED", "k2")).apply(after)
    assert last["status"] == "PREPARING"
    assert before["kernels"][0]["status"] == "SCHEDULED"


def test_a_transition_that_is_told_twice_is_kept_once() -> None:
    moved = transition("PENDING", "SCHEDULED")
    twice = kernel_event(kernel("SCHEDULED"), moved)
    after = twice.apply(twice.apply(session()))
    assert after["kernels"][0]["transitions"] == [moved]


def test_a_snapshot_without_logs_keeps_those_that_are_known() -> None:
    known = transition("PENDING", "SCHEDULED")
    before = session(kernel("SCHEDULED", transitions=[known]))
    bare = {key: value for key, value in kernel("RUNNING").items() if key != "transitions"}
    after = event("session_updated", {**session(kernel("RUNNING")), "kernels": [bare]}).apply(
        before
    )
    assert after["status"] == "RUNNING"
    assert after["kernels"][0]["transitions"] == [known]


def test_the_first_kernel_that_says_something_speaks_for_the_session() -> None:
    waits = kernel(statusInfo="in-line", statusData={"sessionId": "s0"})
    after = kernel_event(waits).apply(session())
    assert (after["statusInfo"], after["statusData"]) == ("in-line", {"sessionId": "s0"})
    quiet = kernel_event(kernel("SCHEDULED")).apply(after)
    assert (quiet["statusInfo"], quiet["statusData"]) == ("", None)


def test_the_pull_of_a_kernel_is_taken_from_wherever_it_stands() -> None:
    bare = {key: value for key, value in kernel("PULLING").items() if key != "pull"}
    after = kernel_event(bare, pull=pull(70)).apply(session())
    assert after["kernels"][0]["pull"] == pull(70)


def test_only_the_end_is_the_last_event() -> None:
    assert event("session_ended", session(kernel("TERMINATED"))).last
    assert not event("session_updated", session()).last
    assert not kernel_event(kernel("TERMINATED")).last


@pytest.mark.parametrize("kind", ["session_updated", "kernel_updated", "session_ended"])
@pytest.mark.parametrize("data", ["", "5", "{}", '{"id": "s", "kernels": [{"status": "NEW"}]}'])
def test_data_that_is_not_of_a_session_is_refused(kind: str, data: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json's own text differs from ours
        SessionEvent.parse(Event("1-1", kind, data))
