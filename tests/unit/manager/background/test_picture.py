"""What a watcher is shown never goes back."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.states import ITEM_TRANSITIONS, ItemStatus, TaskStatus
from wharfinger.manager.background.channels import ENDED, UPDATED
from wharfinger.manager.background.picture import Picture, newer
from wharfinger.manager.background.port import TaskView
from wharfinger.manager.background.reading import Reading
from wharfinger.manager.bus.port import Message

ITEMS = st.fixed_dictionaries(
    {
        "agentId": st.sampled_from("ab"),
        "reference": st.just("r"),
        "status": st.sampled_from([status.value for status in ItemStatus]),
        "attempts": st.integers(0, 3),
        "bytesDone": st.integers(0, 100),
    }
)


def item(**values: Any) -> dict[str, Any]:
    return {"agentId": "a", "reference": "r", "status": "running", **values}


def reading(
    *items: Mapping[str, Any],
    status: TaskStatus = TaskStatus.RUNNING,
    current: int = 0,
    message: str = "",
    epoch: int = 1,
) -> Reading:
    view = TaskView(
        id="t",
        name="n",
        owner_id="ada",
        status=status,
        cancel_requested=False,
        current=current,
        total=100,
        unit="items",
        message=message,
        failure=None,
        created_at=0.0,
        started_at=None,
        ended_at=None,
        items=items,
    )
    return Reading(view, epoch)


def report(
    *items: Mapping[str, Any], current: int = 0, message: str = "", event_id: str = "1-1"
) -> Message:
    data = {"current": current, "total": 100, "message": message, "items": list(items)}
    return Message(event_id, UPDATED, data)


@given(st.lists(ITEMS, min_size=1))
def test_bytes_never_fall_and_an_end_stays_an_end(news: Sequence[dict[str, Any]]) -> None:
    known: Mapping[str, Any] = news[0]
    for one in news[1:]:
        merged = newer(known, one)
        assert merged["bytesDone"] >= known["bytesDone"]
        assert merged["attempts"] >= known["attempts"] or merged["status"] != known["status"]
        if known["status"] in ITEM_TRANSITIONS.terminal:
            assert merged["status"] in ITEM_TRANSITIONS.terminal
        known = merged


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 100))))
def test_progress_never_falls_whoever_tells_it(news: Sequence[tuple[bool, int]]) -> None:
    picture, shown = Picture(reading()), 0
    for from_the_bus, current in news:
        if from_the_bus:
            event = picture.hear(report(current=current))
        else:
            event = picture.read(reading(current=current))
        if event is not None:
            assert event.data["current_progress"] >= shown
            shown = event.data["current_progress"]


def test_news_of_an_earlier_attempt_is_dropped() -> None:
    known = item(attempts=2, phase="downloading")
    assert newer(known, item(attempts=1, phase="verifying")) == known


def test_items_without_bytes_are_fine() -> None:
    assert newer(item(step=1), item(step=2)) == item(step=2)


def test_news_of_a_run_that_is_over_is_dropped() -> None:
    picture = Picture(reading(item(), epoch=3))
    assert picture.hear(report(item(bytesDone=9), current=9, event_id="2-8")) is None
    event = picture.hear(report(item(bytesDone=4), current=4, event_id="4-1"))
    assert event is not None
    assert (event.id, event.data["current_progress"]) == ("4-1", 4)


def test_a_report_says_that_it_runs() -> None:
    event = Picture(reading(status=TaskStatus.PENDING)).hear(report())
    assert event is not None
    assert event.data["status"] == "running"


def test_a_mere_ring_is_no_report() -> None:
    assert Picture(reading()).hear(Message("", ENDED, {})) is None


def test_an_unchanged_row_is_no_news() -> None:
    picture = Picture(reading(item()))
    assert picture.read(reading(item())) is None
    event = picture.read(reading(item(bytesDone=3), item(agentId="b")))
    assert event is not None
    assert [one["agentId"] for one in event.data["items"]] == ["a", "b"]


def test_a_row_that_lags_behind_the_bus_does_not_bring_back_its_message() -> None:
    picture = Picture(reading())
    picture.hear(report(current=5, message="later"))
    assert picture.read(reading(current=4, message="earlier")) is None
    assert picture.whole().data["message"] == "later"


def test_the_end_is_told_by_the_row() -> None:
    picture = Picture(reading(item()))
    picture.hear(report(item(), current=7, message="nearly"))
    event = picture.read(reading(item(status="done"), status=TaskStatus.SUCCEEDED, message="all"))
    assert event is not None
    assert event.last
    assert event.data["message"] == "all"
    assert event.data["items"] == [item(status="done")]
    assert event.data["current_progress"] == 7


@pytest.mark.parametrize(
    ("event_id", "continues"),
    [("2-5", True), ("1-5", False), ("3-1", False), ("", False), ("odd", False), (None, False)],
)
def test_only_an_event_of_the_present_run_can_be_continued(
    event_id: str | None, *, continues: bool
) -> None:
    assert Picture(reading(epoch=2)).continues(event_id) is continues


def test_nothing_continues_after_the_end() -> None:
    assert not Picture(reading(status=TaskStatus.FAILED)).continues("1-1")
