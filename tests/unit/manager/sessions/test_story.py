from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.session_views import kernel_row, session_view, steps

from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions.story import SessionEvent, Story
from wharfinger.manager.sessions.views import KernelView, PullFigures, SessionView
from wharfinger.manager.storage.transitions import Transition


def view(*logs: list[Transition], ended: bool = False, **row: Any) -> SessionView:
    """A session with one kernel per log, each in the log's last state."""
    return session_view(
        kernels=[
            KernelView(
                kernel_row(f"k{place}", status=KernelStatus(log[-1].target), position=place, **row),
                log,
            )
            for place, log in enumerate(logs)
        ],
        ended_at=9.0 if ended else None,
    )


def moves(events: list[SessionEvent]) -> list[tuple[str, str]]:
    return [
        (event.data["kernelId"], event.data["transition"]["to"])
        for event in events
        if event.kind == "kernel_updated" and event.data["transition"]
    ]


def pull(done: int, total: int = 100) -> PullFigures:
    return PullFigures("downloading", done, total, 10.0, 5.0)


def test_the_present_state_comes_first_and_whole() -> None:
    (first,) = Story(view(steps((1, "PENDING"), (4, "SCHEDULED")))).begin()
    assert (first.kind, first.id, first.last) == ("session_updated", "4", False)
    assert [step["to"] for step in first.data["kernels"][0]["transitions"]] == [
        "PENDING",
        "SCHEDULED",
    ]


def test_all_transitions_between_two_readings_are_told_in_order() -> None:
    story = Story(view(steps((1, "PENDING")), steps((2, "PENDING"))))
    list(story.begin())
    events = list(
        story.read(
            view(
                steps((1, "PENDING"), (3, "SCHEDULED"), (6, "PREPARING"), (7, "PULLING")),
                steps((2, "PENDING"), (4, "SCHEDULED")),
                status_info=Reason.RETRYING,
            )
        )
    )
    assert moves(events) == [
        ("k0", "SCHEDULED"),
        ("k1", "SCHEDULED"),
        ("k0", "PREPARING"),
        ("k0", "PULLING"),
    ]
    assert [event.data["status"] for event in events[:4]] == [
        "SCHEDULED",
        "SCHEDULED",
        "PREPARING",
        "PULLING",
    ]
    # why it is there is known of the present state alone
    assert [event.data["statusInfo"] for event in events[:4]] == ["", "retrying", "", "retrying"]
    assert "transitions" not in events[0].data["kernel"]
    assert [event.id for event in events] == ["3", "4", "6", "7", "7"]
    assert events[-1].kind == "session_updated"
    assert events[-1].data["status"] == "PULLING"
    assert "transitions" not in events[-1].data["kernels"][0]


def test_a_lower_number_that_was_committed_later_is_told() -> None:
    story = Story(view(steps((1, "PENDING")), steps((2, "PENDING"))))
    list(story.begin())
    ahead = steps((1, "PENDING"), (4, "SCHEDULED"))
    list(story.read(view(ahead, steps((2, "PENDING")))))
    late = list(story.read(view(ahead, steps((2, "PENDING"), (3, "SCHEDULED")))))
    assert moves(late) == [("k1", "SCHEDULED")]
    assert late[0].id == "4"


def test_another_reason_is_told_without_a_transition() -> None:
    story = Story(view(steps((1, "PENDING"))))
    list(story.begin())
    waits = view(steps((1, "PENDING")), status_info=Reason.NO_FREE_SLOTS, status_data={"free": 0})
    kernel, session = story.read(waits)
    assert kernel.data["transition"] is None
    assert (kernel.data["statusInfo"], kernel.data["statusData"]) == ("no-free-slots", {"free": 0})
    assert (session.kind, session.data["statusInfo"]) == ("session_updated", "no-free-slots")
    assert list(story.read(waits)) == []


def test_the_end_is_told_last_with_all_there_is() -> None:
    story = Story(view(steps((1, "PENDING"))))
    list(story.begin())
    events = list(story.read(view(steps((1, "PENDING"), (2, "CANCELLED")), ended=True)))
    assert [event.kind for event in events] == ["kernel_updated", "session_ended"]
    assert events[-1].last
    assert events[-1].data["kernels"][0]["transitions"][-1]["to"] == "CANCELLED"
    assert story.ended


def test_who_comes_back_is_told_what_happened_since() -> None:
    log = steps((5, "PENDING"), (8, "SCHEDULED"), (9, "PREPARING"))
    events = list(Story(view(log), "8").begin())
    assert [(event.kind, event.id) for event in events] == [
        ("session_updated", "8"),
        ("kernel_updated", "9"),
    ]
    assert moves(events) == [("k0", "PREPARING")]


@pytest.mark.parametrize("seen", ["", "7", "-1", "nonsense", "\u0665", "99999999999999999999999"])
def test_an_id_of_nothing_here_gets_the_present_state_alone(seen: str) -> None:
    events = list(Story(view(steps((5, "PENDING"), (8, "SCHEDULED"))), seen).begin())
    assert [(event.kind, event.id) for event in events] == [("session_updated", "8")]


@given(st.lists(st.one_of(st.none(), st.integers(0, 99)), max_size=20))
def test_bytes_of_one_image_on_one_agent_never_fall(told: list[int | None]) -> None:
    pulling = steps((1, "PENDING"), (2, "PULLING"))
    story = Story(view(pulling, attempt_id="a0", agent_id="one"))
    events = list(story.begin())
    for number, done in enumerate(told):
        if done is None:
            # a failed attempt, and another one
            events += story.read(view(pulling, attempt_id=f"a{number + 1}", agent_id="one"))
        else:
            events += story.hear(dict.fromkeys(story.attempts, pull(done)))
    bytes_done = [
        event.data["pull"]["bytesDone"]
        for event in events
        if event.kind == "kernel_updated" and event.data["pull"]
    ]
    assert bytes_done == sorted(bytes_done)


def test_a_pull_on_another_agent_begins_anew() -> None:
    pulling = steps((1, "PENDING"), (2, "PULLING"))
    story = Story(view(pulling, attempt_id="a", agent_id="one"))
    list(story.hear({"a": pull(90)}))
    list(story.read(view(pulling, attempt_id="b", agent_id="two")))
    (event,) = story.hear({"b": pull(10)})
    assert event.data["pull"]["bytesDone"] == 10
    assert event.data["transition"] is None


def test_pulls_are_of_those_that_pull() -> None:
    story = Story(view(steps((1, "PENDING"), (2, "RUNNING")), attempt_id="a"))
    assert not story.pulling
    assert story.attempts == []
    assert list(story.hear({"a": pull(10)})) == []


def test_what_did_not_change_is_not_told() -> None:
    present = view(steps((1, "PENDING"), (2, "PULLING")), attempt_id="a")
    story = Story(present)
    list(story.begin())
    assert len(list(story.hear({"a": pull(10)}))) == 1
    assert list(story.hear({"a": pull(10)})) == []
    assert list(story.read(replace(present, name="other").with_pulls({"a": pull(10)}))) == []


PREPARATION = {
    "taskId": "t", "agentId": "a-1", "itemId": "i", "attemptId": "p",
    "progress": None, "etaSeconds": None,
}  # fmt: skip


def held_back(**said: Any) -> SessionView:
    return view(
        steps((1, "PENDING")),
        status_info=Reason.PENDING_IMAGE_PREPARATION,
        status_data=PREPARATION | said,
    )


def test_how_far_the_preparation_is_that_holds_a_session_back_is_told_as_it_gets_on() -> None:
    story = Story(held_back())
    (first,) = story.begin()
    assert (first.data["statusData"], first.data["kernels"][0]["pull"]) == (PREPARATION, None)
    assert (story.pulling, story.attempts) == (True, ["p"])
    (news,) = story.hear({"p": pull(30)})
    now = {"progress": {"current": 30, "total": 100, "unit": "bytes"}, "etaSeconds": 5.0}
    assert news.data["statusData"] == PREPARATION | now
    assert news.data["pull"]["bytesDone"] == 30
    assert list(story.hear({"p": pull(20)})) == [], "bytes never fall"
    other = held_back(agentId="a-2", attemptId="q").with_pulls({"q": pull(10)})
    assert other.status_data is not None
    assert other.to_json()["statusData"]["progress"]["current"] == 10
    (news,) = story.read(other)
    assert news.data["statusData"]["progress"]["current"] == 10, "it is another host's"


def test_an_unload_that_holds_a_session_back_has_no_figures() -> None:
    story = Story(held_back(attemptId=None))
    (first,) = story.begin()
    assert first.data["statusData"]["progress"] is None
    assert not story.pulling
