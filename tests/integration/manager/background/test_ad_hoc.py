"""Ad hoc tasks: any coroutine, for as long as its manager lives."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import aiojobs
import pytest
from rig.tasks import (
    BRISK,
    DOZING,
    LossyBus,
    UnreliableStorage,
    Work,
    end_of,
    eventually,
    within,
)

from wharfinger.domain.errors import Conflict, UnknownId
from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import ProgressReporter, TaskResult
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.storage.port import Storage

Manager = Callable[..., BackgroundTasks]

ENDS = [
    TaskStatus.SUCCEEDED,
    TaskStatus.PARTIALLY_SUCCEEDED,
    TaskStatus.FAILED,
    TaskStatus.CANCELLED,
]


async def start(
    tasks: BackgroundTasks, work: Work, scheduler: aiojobs.Scheduler | None = None
) -> str:
    return await tasks.start_background_task(
        work.body, name="count", owner_id="ada", scheduler=scheduler
    )


async def assert_ended_with_its_manager(tasks: BackgroundTasks, task_id: str) -> None:
    view = await tasks.show(task_id)
    assert (view.status, view.message) == (TaskStatus.FAILED, "its manager ended")
    assert view.failure is not None
    assert view.failure.failure_class == "internal"
    assert view.failure.message == "its manager ended"


@pytest.mark.parametrize("status", ENDS)
async def test_the_result_of_the_body_is_the_end(manager: Manager, status: TaskStatus) -> None:
    tasks, work = manager(), Work()
    task_id = await start(tasks, work)
    await within(work.begun.wait())
    work.end(status, "counted")
    assert await end_of(tasks, task_id) is status
    view = await tasks.show(task_id)
    assert (view.status, view.message, view.owner_id) == (status, "counted", "ada")
    assert view.started_at is not None
    assert view.ended_at is not None
    assert [move.target for move in await tasks.transitions(task_id)] == [
        "pending",
        "running",
        status,
    ]
    assert tasks.ended == {status: 1}
    assert tasks.running == 0


async def test_an_exception_ends_it_as_failed_with_a_sentence(manager: Manager) -> None:
    tasks, work = manager(), Work()
    task_id = await start(tasks, work)
    work.fail(ZeroDivisionError("by nothing"))
    assert await end_of(tasks, task_id) is TaskStatus.FAILED
    failure = (await tasks.show(task_id)).failure
    assert failure is not None
    assert failure.to_json() == {
        "class": "internal",
        "message": "the task met a defect: ZeroDivisionError('by nothing')",
        "detail": "",
    }


async def test_a_result_that_is_no_end_ends_it_as_failed(manager: Manager) -> None:
    tasks, work = manager(), Work()
    task_id = await start(tasks, work)
    work.end(TaskStatus.RUNNING)
    assert await end_of(tasks, task_id) is TaskStatus.FAILED


async def test_a_body_that_cancels_itself_has_failed(manager: Manager) -> None:
    async def body(reporter: ProgressReporter) -> TaskResult:
        await reporter(current=1)
        raise asyncio.CancelledError

    tasks = manager()
    task_id = await tasks.start_background_task(body, name="odd", owner_id="ada")
    assert await end_of(tasks, task_id) is TaskStatus.FAILED


async def test_cancelling_cancels_the_coroutine(manager: Manager) -> None:
    tasks, work = manager(), Work()
    task_id = await start(tasks, work)
    await within(work.begun.wait())
    await tasks.cancel(task_id, by="ada")
    await tasks.cancel(task_id, by="ada")
    assert await end_of(tasks, task_id) is TaskStatus.CANCELLED
    assert work.cancelled.is_set()
    assert (await tasks.show(task_id)).cancel_requested
    await tasks.cancel(task_id, by="ada")


async def test_what_has_ended_cannot_be_cancelled(manager: Manager) -> None:
    tasks, work = manager(), Work()
    task_id = await start(tasks, work)
    work.end()
    await end_of(tasks, task_id)
    with pytest.raises(Conflict):
        await tasks.cancel(task_id, by="ada")
    assert (await tasks.show(task_id)).status is TaskStatus.SUCCEEDED


async def test_an_unknown_task_cannot_be_cancelled_or_shown(manager: Manager) -> None:
    with pytest.raises(UnknownId):
        await manager().cancel("nothing", by="ada")
    with pytest.raises(UnknownId):
        await manager().show("nothing")


async def test_a_cancel_reaches_the_manager_that_runs_it(manager: Manager) -> None:
    owner, other, work = manager(), manager(), Work()
    await owner.start()
    task_id = await start(owner, work)
    await within(work.begun.wait())
    await other.cancel(task_id, by="ada")
    assert await end_of(other, task_id) is TaskStatus.CANCELLED


async def test_a_cancel_that_the_bus_lost_is_seen_at_the_renewal(
    manager: Manager, bus: MemoryBus
) -> None:
    lossy = LossyBus(bus)
    lossy.losing = True
    owner, other, work = (
        manager(bus=lossy, timing=replace(BRISK, renew=0.02)),
        manager(bus=lossy),
        Work(),
    )
    await owner.start()
    task_id = await start(owner, work)
    await within(work.begun.wait())
    await other.cancel(task_id, by="ada")
    assert await end_of(other, task_id) is TaskStatus.CANCELLED


async def test_it_ends_with_a_manager_that_died(manager: Manager, storage: Storage) -> None:
    dying = UnreliableStorage(storage)
    owner, other, work = manager(storage=dying, timing=DOZING), manager(), Work()
    task_id = await start(owner, work)
    await within(work.begun.wait())
    dying.down = True
    await other.start()
    assert await end_of(other, task_id) is TaskStatus.FAILED
    await assert_ended_with_its_manager(other, task_id)


async def test_a_live_manager_keeps_its_tasks(manager: Manager) -> None:
    owner, other, kept, lost = manager(), manager(), Work(), Work()
    kept_id = await start(owner, kept)
    lost_id = await start(manager(timing=DOZING), lost)
    await other.start()
    assert await end_of(other, lost_id) is TaskStatus.FAILED
    assert (await other.show(kept_id)).status in {TaskStatus.PENDING, TaskStatus.RUNNING}
    kept.end()
    assert await end_of(other, kept_id) is TaskStatus.SUCCEEDED


async def test_its_manager_does_not_end_it_for_a_lease_that_ran_out(manager: Manager) -> None:
    owner, work = manager(timing=replace(BRISK, lease=0.0)), Work()
    task_id = await start(owner, work)
    lost_id = await start(manager(timing=DOZING), Work())
    await owner.start()
    assert await end_of(owner, lost_id) is TaskStatus.FAILED
    work.end()
    assert await end_of(owner, task_id) is TaskStatus.SUCCEEDED


async def test_a_planned_stop_cancels_and_awaits_it(manager: Manager) -> None:
    tasks, work = manager(), Work()
    task_id = await start(tasks, work)
    await within(work.begun.wait())
    await within(tasks.stop())
    assert work.cancelled.is_set()
    await assert_ended_with_its_manager(tasks, task_id)
    await within(tasks.stop())
    with pytest.raises(Conflict):
        await start(tasks, Work())


async def test_what_ends_during_a_planned_stop_keeps_its_end(manager: Manager) -> None:
    begun = asyncio.Event()

    async def body(reporter: ProgressReporter) -> TaskResult:
        await reporter(current=1)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            return TaskResult(TaskStatus.SUCCEEDED)  # noqa: B012 - the end came just before

    tasks = manager()
    task_id = await tasks.start_background_task(body, name="quick", owner_id="ada")
    await within(begun.wait())
    await within(tasks.stop())
    assert (await tasks.show(task_id)).status is TaskStatus.SUCCEEDED


async def test_a_body_that_swallows_its_cancellation_does_not_hang_the_stop(
    manager: Manager,
) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    async def body(reporter: ProgressReporter) -> TaskResult:
        await reporter(current=1)
        begun.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return TaskResult(TaskStatus.SUCCEEDED)

    tasks = manager()
    task_id = await tasks.start_background_task(body, name="stubborn", owner_id="ada")
    await within(begun.wait())
    await within(tasks.stop())
    await assert_ended_with_its_manager(tasks, task_id)
    let_go.set()


async def test_a_caller_scheduler_runs_it_and_is_closed_at_the_stop(manager: Manager) -> None:
    tasks, running, queued = manager(), Work(), Work()
    scheduler = aiojobs.Scheduler(limit=1)
    running_id = await start(tasks, running, scheduler)
    await within(running.begun.wait())
    queued_id = await start(tasks, queued, scheduler)
    assert (await tasks.show(queued_id)).status is TaskStatus.PENDING
    await within(tasks.stop())
    assert scheduler.closed
    assert running.cancelled.is_set()
    assert not queued.begun.is_set()
    await assert_ended_with_its_manager(tasks, running_id)
    await assert_ended_with_its_manager(tasks, queued_id)


async def test_a_scheduler_without_tasks_left_is_closed_too(manager: Manager) -> None:
    tasks, work = manager(), Work()
    scheduler = aiojobs.Scheduler()
    task_id = await start(tasks, work, scheduler)
    work.end()
    assert await end_of(tasks, task_id) is TaskStatus.SUCCEEDED
    await within(tasks.stop())
    assert scheduler.closed


async def test_what_a_scheduler_queues_is_cancelled_at_once(manager: Manager) -> None:
    tasks, running, queued = manager(), Work(), Work()
    scheduler = aiojobs.Scheduler(limit=1)
    running_id = await start(tasks, running, scheduler)
    await within(running.begun.wait())
    queued_id = await start(tasks, queued, scheduler)
    assert (await tasks.cancel(queued_id, by="ada")).status is TaskStatus.CANCELLED
    assert await end_of(tasks, queued_id) is TaskStatus.CANCELLED
    running.end()
    assert await end_of(tasks, running_id) is TaskStatus.SUCCEEDED
    assert not queued.begun.is_set()


async def test_cancelling_reaches_into_a_scheduler(manager: Manager) -> None:
    tasks, work = manager(), Work()
    task_id = await start(tasks, work, aiojobs.Scheduler())
    await within(work.begun.wait())
    await tasks.cancel(task_id, by="ada")
    assert await end_of(tasks, task_id) is TaskStatus.CANCELLED
    assert work.cancelled.is_set()


async def test_a_scheduler_closed_by_its_owner_ends_its_tasks(manager: Manager) -> None:
    tasks, running, queued = manager(), Work(), Work()
    scheduler = aiojobs.Scheduler(limit=1)
    ids = [await start(tasks, running, scheduler)]
    await within(running.begun.wait())
    ids.append(await start(tasks, queued, scheduler))
    await scheduler.close()
    for task_id in ids:
        assert await end_of(tasks, task_id) is TaskStatus.FAILED


async def test_what_a_closed_scheduler_refuses_has_ended(manager: Manager) -> None:
    tasks = manager()
    scheduler = aiojobs.Scheduler()
    await scheduler.close()
    with pytest.raises(RuntimeError):
        await start(tasks, Work(), scheduler)

    async def ended() -> bool:
        views = await tasks.list(owner_id=None, statuses=(), after=None, limit=10)
        return [view.status for view in views] == [TaskStatus.FAILED]

    await eventually(ended)


async def test_the_end_is_written_when_the_database_is_back(
    manager: Manager, storage: Storage
) -> None:
    unreliable = UnreliableStorage(storage)
    tasks, work = manager(storage=unreliable), Work()
    task_id = await start(tasks, work)
    await within(work.begun.wait())
    unreliable.down = True
    work.end(TaskStatus.PARTIALLY_SUCCEEDED)
    watcher = asyncio.create_task(end_of(manager(), task_id))
    await work.report(current=1)
    unreliable.down = False
    assert await within(watcher) is TaskStatus.PARTIALLY_SUCCEEDED
