"""What an event changes of a task."""

import json

import pytest
from rig.task_answers import item, task

from wharfinger.client.sse import Event
from wharfinger.client.watch import TaskEvent


def event(kind: str = "bgtask_updated", **data: object) -> Event:
    whole = {"task_id": "task-1", "current_progress": 5, "total_progress": 9, "message": "m"}
    return Event("1-1", kind, json.dumps({**whole, "items": [], **data}))


def test_only_the_items_that_changed_change() -> None:
    before = task(item("a"), item("b"))
    changed = item("b", "done")
    after = TaskEvent.parse(event(items=[changed])).apply(before)
    assert after["items"] == [before["items"][0], changed]
    assert after["progress"] == {"current": 5, "total": 9, "unit": "bytes"}
    assert before["items"][1]["status"] == "running"


def test_items_seen_first_come_last() -> None:
    after = TaskEvent.parse(event(items=[item("z"), item("b")])).apply(task(item("a")))
    assert [each["agentId"] for each in after["items"]] == ["a", "z", "b"]


@pytest.mark.parametrize(
    ("kind", "status", "last"),
    [
        ("bgtask_updated", "running", False),
        ("bgtask_done", "succeeded", True),
        ("bgtask_partial_success", "partially_succeeded", True),
        ("bgtask_failed", "failed", True),
        ("bgtask_cancelled", "cancelled", True),
    ],
)
def test_each_kind_of_event_has_its_status(kind: str, status: str, last: bool) -> None:
    parsed = TaskEvent.parse(event(kind))
    assert parsed.last is last
    assert parsed.apply(task(status="pending"))["status"] == status


@pytest.mark.parametrize("data", ["", "5", "{}", '{"current_progress": "x"}'])
def test_data_that_is_not_of_a_task_is_refused(data: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json's own text differs from ours
        TaskEvent.parse(Event("1-1", "bgtask_updated", data))
