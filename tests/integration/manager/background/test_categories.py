"""Categories of tasks: some wait for others, first in, first out."""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from rig.tasks import (
    BRISK,
    DOZING,
    Work,
    end_of,
    next_event,
    no_items,
    start_named,
    within,
)
from sqlalchemy import Connection, update

from wharfinger.domain.errors import Conflict, WharfingerError
from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import NamedFunction, Outstanding, TaskResult, TaskRun
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

Manager = Callable[..., BackgroundTasks]

WAITS = {"download": {"rescan"}, "rescan": {"download"}}

_TASKS = 30

RUNG = replace(BRISK, take_over=3600.0, reread=3600.0)
"""Whoever looks does so because the bell rang."""


class Wharf:
    """Managers that know how to download and how to rescan, each with its own works at hand."""

    def __init__(self, make: Manager, storage: Storage) -> None:
        self._make = make
        self._storage = storage

    async def manager(
        self,
        downloads: Iterable[Work] = (),
        rescans: Iterable[Work] = (),
        *,
        timing: Timing = RUNG,
        start: bool = True,
    ) -> BackgroundTasks:
        """A manager whose tasks of a category are done by these works, in turn."""
        tasks = self._make(timing=timing, waits=WAITS)
        for category, works in (("download", iter(downloads)), ("rescan", iter(rescans))):

            async def function(run: TaskRun, works: Iterable[Work] = works) -> TaskResult:
                return await next(iter(works)).function(run)

            tasks.register(category, function, no_items, category)
        if start:
            await tasks.start()
        return tasks

    async def insert(self, tasks: BackgroundTasks, category: str, *, at_once: bool = False) -> str:
        def insert(conn: Connection) -> str:
            return tasks.insert_named(
                conn,
                name=category,
                function=category,
                arguments={},
                owner_id="ada",
                at_once=at_once,
            )

        return await self._storage.write(insert)


@pytest.fixture
def wharf(manager: Manager, storage: Storage) -> Wharf:
    return Wharf(manager, storage)


async def test_a_task_of_a_category_that_waits_begins_when_the_other_has_ended(
    wharf: Wharf, storage: Storage
) -> None:
    download, rescan = Work(), Work()
    tasks = await wharf.manager([download], [rescan])
    first = await start_named(tasks, storage, "download")
    await within(download.begun.wait())
    second = await start_named(tasks, storage, "rescan")
    shown = await tasks.show(second)
    assert shown.status is TaskStatus.PENDING
    assert shown.to_json()["waitsFor"] == [first]
    assert shown.message == f"waits for download {first}"
    (listed, _) = await tasks.list(owner_id=None, statuses=(), after=None, limit=2)
    assert listed == shown
    assert not rescan.begun.is_set()
    download.end()
    await within(rescan.begun.wait())
    shown = await tasks.show(second)
    assert (shown.status, shown.waits_for, shown.message) == (TaskStatus.RUNNING, [], "")
    rescan.end()
    assert await end_of(tasks, second) is TaskStatus.SUCCEEDED


async def test_tasks_of_one_category_run_side_by_side(wharf: Wharf, storage: Storage) -> None:
    one, two = Work(), Work()
    tasks = await wharf.manager([one, two])
    for _ in range(2):
        await start_named(tasks, storage, "download")
    await within(one.begun.wait())
    await within(two.begun.wait())


async def test_another_manager_takes_what_waited_for_this_one(
    wharf: Wharf, storage: Storage
) -> None:
    download, rescan = Work(), Work()
    here = await wharf.manager([download], start=False)
    there = await wharf.manager((), [rescan])
    await start_named(here, storage, "download")
    await within(download.begun.wait())
    waiting = await start_named(there, storage, "rescan")
    download.end()
    await within(rescan.begun.wait())
    rescan.end()
    assert await end_of(there, waiting) is TaskStatus.SUCCEEDED


async def test_who_comes_later_does_not_overtake_who_waits(wharf: Wharf, storage: Storage) -> None:
    first, rescan, second = Work(), Work(), Work()
    tasks = await wharf.manager([first, second], [rescan])
    await start_named(tasks, storage, "download")
    waiting = await start_named(tasks, storage, "rescan")
    last = await start_named(tasks, storage, "download")
    assert (await tasks.show(last)).waits_for == [waiting]
    first.end()
    await within(rescan.begun.wait())
    assert not second.begun.is_set()
    rescan.end()
    await within(second.begun.wait())


async def test_a_task_that_is_to_begin_at_once_is_refused_with_what_is_outstanding(
    wharf: Wharf,
) -> None:
    download = Work()
    tasks = await wharf.manager([download], start=False)
    waited_for = [await wharf.insert(tasks, "download"), await wharf.insert(tasks, "download")]
    with pytest.raises(Outstanding) as refused:
        await wharf.insert(tasks, "rescan", at_once=True)
    assert refused.value.task_ids == tuple(refused.value.detail["taskIds"])
    assert sorted(refused.value.task_ids) == sorted(waited_for)
    assert len(await tasks.list(owner_id=None, statuses=(), after=None, limit=9)) == 2
    await wharf.insert(tasks, "download", at_once=True)


async def test_what_waits_can_be_cancelled_and_whoever_waited_for_it_begins(
    wharf: Wharf, storage: Storage
) -> None:
    first, second = Work(), Work()
    tasks = await wharf.manager([first, second])
    await start_named(tasks, storage, "download")
    await within(first.begun.wait())
    waiting = await start_named(tasks, storage, "rescan")
    behind = await start_named(tasks, storage, "download")
    assert (await tasks.show(behind)).status is TaskStatus.PENDING
    assert (await tasks.cancel(waiting, by="ada")).status is TaskStatus.CANCELLED
    await within(second.begun.wait())


async def test_what_runs_already_is_taken_over_before_what_is_older(
    wharf: Wharf, storage: Storage
) -> None:
    before, after = Work(), Work()
    dying = await wharf.manager([before], timing=DOZING, start=False)
    other = await wharf.manager([after], start=False)
    running = await start_named(dying, storage, "download")
    await within(before.begun.wait())
    late = await start_named(other, storage, "rescan")
    await storage.write(_make_oldest, late)
    assert (await other.show(late)).waits_for == [running]
    await other.launch(running)
    await within(after.begun.wait())
    assert after.runs[0].epoch == 2


async def test_who_watches_what_waits_is_told_and_then_sees_it_go_on(
    wharf: Wharf, storage: Storage
) -> None:
    download, rescan = Work(), Work()
    tasks = await wharf.manager([download], [rescan])
    first = await start_named(tasks, storage, "download")
    second = await start_named(tasks, storage, "rescan")
    async with tasks.watch(second) as events:
        assert (await next_event(events)).data["message"] == f"waits for download {first}"
        download.end()
        await within(rescan.begun.wait())
        await rescan.report(current=1, maximum=2)
        event = await next_event(events)
    assert (event.data["message"], event.data["status"]) == ("", "running")


async def test_what_an_end_has_to_say_is_kept(wharf: Wharf, storage: Storage) -> None:
    work = Work()
    tasks = await wharf.manager((), [work])
    task_id = await start_named(tasks, storage, "rescan")
    assert (await tasks.show(task_id)).to_json()["detail"] is None
    work.end(TaskStatus.SUCCEEDED, "done", {"registries": [{"new": 2}]})
    await end_of(tasks, task_id)
    assert (await tasks.show(task_id)).to_json()["detail"] == {"registries": [{"new": 2}]}


async def test_a_note_of_who_cancelled_shares_the_fate_of_the_request(
    wharf: Wharf, storage: Storage
) -> None:
    work = Work()
    tasks = await wharf.manager([work])
    task_id = await start_named(tasks, storage, "download")
    noted: list[Connection] = []

    def refuse(_conn: Connection) -> None:
        raise WharfingerError

    with pytest.raises(WharfingerError):
        await tasks.cancel(task_id, by="ada", noting=refuse)
    assert not (await tasks.show(task_id)).cancel_requested
    await tasks.cancel(task_id, by="ada", noting=noted.append)
    assert await end_of(tasks, task_id) is TaskStatus.CANCELLED
    assert len(noted) == 1
    work.end()
    ended = await start_named(await wharf.manager([work]), storage, "download")
    await end_of(tasks, ended)
    with pytest.raises(Conflict):
        await tasks.cancel(ended, by="ada", noting=noted.append)
    assert len(noted) == 1


class Witness:
    """Functions for several managers that see what runs beside them, and note who began."""

    def __init__(self, chance: random.Random) -> None:
        self.begun: list[tuple[str, str]] = []
        self._running: list[str] = []
        self._chance = chance

    def function(self, category: str) -> NamedFunction:
        async def work(run: TaskRun) -> TaskResult:
            self.begun.append((category, run.task_id))
            self._running.append(category)
            assert not {"download", "rescan"} <= set(self._running)
            for _ in range(self._chance.randrange(4)):
                await asyncio.sleep(0)
            self._running.remove(category)
            return TaskResult(TaskStatus.SUCCEEDED)

        return work


async def test_two_managers_never_run_what_waits_for_each_other_and_all_get_their_turn(
    manager: Manager, storage: Storage
) -> None:
    chance = random.Random(_TASKS)
    witness = Witness(chance)
    managers = [manager(timing=RUNG, waits=WAITS) for _ in range(2)]
    for tasks in managers:
        for category in WAITS:
            tasks.register(category, witness.function(category), no_items, category)
        await tasks.start()
    made: list[str] = []
    for _ in range(_TASKS):
        category = chance.choice(["download", "download", "rescan"])
        made.append(await start_named(chance.choice(managers), storage, category, launch=False))
        await chance.choice(managers).launch(chance.choice(made))
    for task_id in made:
        await chance.choice(managers).launch(task_id)
        assert await end_of(managers[0], task_id) is TaskStatus.SUCCEEDED
    newest_first = await managers[0].list(owner_id=None, statuses=(), after=None, limit=_TASKS)
    place = {task.id: -number for number, task in enumerate(newest_first)}
    assert sorted(task_id for _, task_id in witness.begun) == sorted(made)
    overtaken = [
        (one, other)
        for (category, one), (later, other) in itertools.combinations(witness.begun, 2)
        if category != later and place[one] > place[other]
    ]
    assert overtaken == []


def _make_oldest(conn: Connection, task_id: str) -> None:
    conn.execute(update(tables.tasks).where(tables.tasks.c.id == task_id).values(created_at=0.0))
