"""Watchers, whenever they come and however they read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rig.tasks import (
    BRISK,
    DOZING,
    LossyBus,
    UnreliableStorage,
    Work,
    end_of,
    events_of,
    eventually,
    next_event,
    start_named,
    within,
)
from sqlalchemy import Connection

from wharfinger.domain.errors import UnknownId
from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import TaskEvent
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.storage.port import Storage

Manager = Callable[..., BackgroundTasks]

KINDS = {
    TaskStatus.SUCCEEDED: "bgtask_done",
    TaskStatus.PARTIALLY_SUCCEEDED: "bgtask_partial_success",
    TaskStatus.FAILED: "bgtask_failed",
    TaskStatus.CANCELLED: "bgtask_cancelled",
}


def item(agent_id: str, done: int = 0, status: str = "running") -> dict[str, Any]:
    return {"agentId": agent_id, "reference": "r", "status": status, "bytesDone": done}


class Items:
    """What the database says of items, as the test likes it."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)

    def __call__(self, _conn: Connection, _task_id: str, /) -> Sequence[Mapping[str, Any]]:
        return list(self.items)


def done_of(event: TaskEvent) -> dict[str, int]:
    return {item["agentId"]: item["bytesDone"] for item in event.data["items"]}


@pytest.mark.parametrize("status", KINDS)
async def test_the_last_event_tells_the_end(manager: Manager, status: TaskStatus) -> None:
    tasks, work = manager(), Work()
    task_id = await tasks.start_background_task(work.body, name="n", owner_id="ada")
    async with tasks.watch(task_id) as events:
        first = await next_event(events)
        assert not first.last
        await within(work.begun.wait())
        work.end(status, "so it ended")
        last = [event async for event in events][-1]
    assert last.kind == KINDS[status]
    assert last.data["status"] == status
    assert last.data["message"] == "so it ended"


async def test_an_unknown_task_is_refused_on_entering(manager: Manager) -> None:
    with pytest.raises(UnknownId):
        async with manager().watch("nothing"):
            pass


async def test_who_comes_after_the_end_gets_it_at_once(manager: Manager, storage: Storage) -> None:
    work, items = Work(), Items(item("a", 5, "done"))
    tasks = manager(work.function, items=items)
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    await work.report(current=5, maximum=5)
    work.end(message="all")
    await end_of(tasks, task_id)
    for last_event_id in (None, "1-1", "9-9", "nonsense"):
        (event,) = await events_of(manager(items=items), task_id, last_event_id=last_event_id)
        assert event.kind == "bgtask_done"
        assert event.data["current_progress"] == event.data["total_progress"] == 5
    (event,) = await events_of(tasks, task_id)
    assert event.data == {
        "task_id": task_id,
        "current_progress": 5,
        "total_progress": 5,
        "message": "all",
        "status": "succeeded",
        "failure": None,
        "items": [item("a", 5, "done")],
    }


async def test_updates_tell_what_changed(manager: Manager, storage: Storage) -> None:
    work = Work()
    tasks = manager(work.function, items=Items(item("a"), item("b")))
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with tasks.watch(task_id) as events:
        assert done_of(await next_event(events)) == {"a": 0, "b": 0}
        await work.report(current=3, maximum=9, message="on it", items=[item("b", 3)])
        event = await next_event(events)
    assert event.kind == "bgtask_updated"
    assert event.id == "1-1"
    assert event.data["current_progress"] == 3
    assert event.data["total_progress"] == 9
    assert event.data["message"] == "on it"
    assert done_of(event) == {"b": 3}


async def test_who_comes_late_sees_bytes_the_database_does_not_know(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    tasks = manager(work.function, items=Items(item("a", 1), item("b", 9, "done")))
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with tasks.watch(task_id) as early:
        await next_event(early)
        await work.report(current=7, items=[item("a", 7), item("b", 2)])
        await next_event(early)
    async with tasks.watch(task_id) as late:
        event = await next_event(late)
    assert done_of(event) == {"a": 7, "b": 9}
    assert event.data["current_progress"] == 7
    assert event.id == "1-1"


async def test_who_reconnects_gets_what_it_missed_and_no_more(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    tasks = manager(work.function, items=Items(item("a"), item("b")))
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with tasks.watch(task_id) as events:
        await next_event(events)
        await work.report(items=[item("a", 1)])
        seen = await next_event(events)
        await work.report(items=[item("b", 2)])
        await next_event(events)
    async with tasks.watch(task_id, last_event_id=seen.id) as events:
        event = await next_event(events)
    assert (event.id, done_of(event)) == ("1-2", {"b": 2})


@pytest.mark.parametrize("last_event_id", ["0-0", "1-77", "2-1", "nonsense"])
async def test_an_event_id_that_is_not_known_gets_the_present_state(
    manager: Manager, storage: Storage, last_event_id: str
) -> None:
    work = Work()
    tasks = manager(work.function, items=Items(item("a", 4), item("b")))
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with tasks.watch(task_id, last_event_id=last_event_id) as events:
        assert done_of(await next_event(events)) == {"a": 4, "b": 0}


async def test_who_reconnects_after_a_takeover_gets_the_present_state(
    manager: Manager, storage: Storage
) -> None:
    before, after, items = Work(), Work(), Items(item("a"), item("b"))
    owner = manager(before.function, items=items, timing=DOZING)
    other = manager(after.function, items=items)
    task_id = await start_named(owner, storage)
    await within(before.begun.wait())
    async with other.watch(task_id) as events:
        await next_event(events)
        await before.report(items=[item("a", 1)])
        seen = await next_event(events)
    await other.start()
    await within(after.begun.wait())
    async with other.watch(task_id, last_event_id=seen.id) as events:
        assert set(done_of(await next_event(events))) == {"a", "b"}


async def test_a_takeover_is_a_pause_and_not_an_end(manager: Manager, storage: Storage) -> None:
    before, after = Work(), Work()
    owner, other = manager(before.function), manager(after.function)
    task_id = await start_named(owner, storage)
    await within(before.begun.wait())
    async with other.watch(task_id) as events:
        await next_event(events)
        await before.report(current=5)
        assert (await next_event(events)).data["current_progress"] == 5
        await owner.stop()
        await other.start()
        await within(after.begun.wait())
        await after.report(current=1, message="again")
        event = await next_event(events)
        assert (event.kind, event.data["current_progress"]) == ("bgtask_updated", 5)
        await after.report(current=6)
        after.end()
        rest = [event async for event in events]
    assert rest[-1].kind == "bgtask_done"
    assert rest[-1].data["current_progress"] == 6


async def test_an_end_the_bus_lost_comes_all_the_same(
    manager: Manager, storage: Storage, bus: MemoryBus
) -> None:
    lossy, work, items = LossyBus(bus), Work(), Items(item("a"), item("b"))
    tasks = manager(work.function, items=items, bus=lossy)
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with tasks.watch(task_id) as events:
        await next_event(events)
        lossy.losing = True
        items.items[1] = item("b", 3)
        await work.report(current=3)
        update = await next_event(events)
        assert done_of(update) == {"b": 3}
        items.items = [item("a", 9, "done"), item("b", 9, "done")]
        work.end()
        last = [event async for event in events][-1]
    assert last.kind == "bgtask_done"
    assert done_of(last) == {"a": 9, "b": 9}
    assert last.data["current_progress"] == 3


async def test_what_the_bus_lost_comes_also_while_it_goes_on_talking(
    manager: Manager, storage: Storage, bus: MemoryBus
) -> None:
    lossy, work, items = LossyBus(bus), Work(), Items(item("a"), item("b"))
    tasks = manager(work.function, items=items, bus=lossy)
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with tasks.watch(task_id) as events:
        await next_event(events)
        items.items[1] = item("b", 3)  # and the bus does not say so
        told = 0
        while True:
            told += 1
            await work.report(current=told)
            if done_of(await next_event(events)) == {"b": 3}:
                break
    work.end()


async def test_a_watcher_that_never_reads_holds_nobody_up(
    manager: Manager, storage: Storage
) -> None:
    bus = MemoryBus(limit=4)
    work, items = Work(), Items(item("a"), item("b"))
    tasks = manager(work.function, items=items, bus=bus, timing=replace(BRISK, publish=0.0))
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with tasks.watch(task_id) as slow, tasks.watch(task_id) as quick:
        await next_event(slow)
        await next_event(quick)
        await work.report(items=[item("a", 1)])
        assert done_of(await next_event(slow)) == {"a": 1}
        assert done_of(await next_event(quick)) == {"a": 1}
        for done in range(2, 20):
            await work.report(current=done, items=[item("a", done)])
            assert done_of(await next_event(quick)) == {"a": done}
        # the overflow shows as the present state, whole again
        event = await next_event(slow)
        assert done_of(event) == {"a": 19, "b": 0}
        work.end()
        assert [event async for event in slow][-1].kind == "bgtask_done"


async def test_a_watcher_that_leaves_leaves_no_subscription(
    manager: Manager, storage: Storage, bus: MemoryBus
) -> None:
    work = Work()
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage)
    async with tasks.watch(task_id) as events:
        await next_event(events)
        assert f"task:{task_id}" in bus._subscribers
    assert f"task:{task_id}" not in bus._subscribers


async def test_a_closed_bus_ends_the_stream_without_an_end(
    manager: Manager, storage: Storage, bus: MemoryBus
) -> None:
    work = Work()
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage)
    async with tasks.watch(task_id) as events:
        await next_event(events)
        await bus.close()
        assert all([not event.last async for event in events])


async def test_bursts_of_reports_are_coalesced_and_the_last_is_never_lost(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    tasks = manager(work.function, timing=replace(BRISK, publish=3600.0, save=3600.0))
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with tasks.watch(task_id) as events:
        await next_event(events)
        for step in range(100):
            await work.report(current=step, items=[item(f"agent-{step % 3}", step)])
        first = await next_event(events)
        await work.report(current=100, message="nearly", items=[item("agent-0", 100)])
        await work.report(current=50)
        work.end()
        rest = [event async for event in events]
    assert done_of(first) == {"agent-0": 99, "agent-1": 97, "agent-2": 98}
    assert [event.kind for event in rest] == ["bgtask_updated", "bgtask_done"]
    assert done_of(rest[0]) == {"agent-0": 100}
    assert rest[1].data["current_progress"] == 100
    assert (await tasks.show(task_id)).current == 100


async def test_watchers_live_through_an_outage_of_the_database(
    manager: Manager, storage: Storage
) -> None:
    unreliable, work = UnreliableStorage(storage), Work()
    tasks, watching = manager(work.function), manager(storage=unreliable)
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    async with watching.watch(task_id) as events:
        await next_event(events)
        unreliable.down = True
        work.end()

        async def ended() -> bool:
            return tasks.running == 0

        await eventually(ended)
        unreliable.down = False
        assert (await next_event(events)).kind == "bgtask_done"
