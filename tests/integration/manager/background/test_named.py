"""Named tasks: they survive their manager."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from rig.tasks import (
    BRISK,
    DOZING,
    LossyBus,
    UnreliableStorage,
    Work,
    end_of,
    eventually,
    start_named,
    within,
)
from sqlalchemy import Connection

from wharfinger.domain.errors import Conflict
from wharfinger.domain.states import TASK_TRANSITIONS, TaskStatus
from wharfinger.manager.background.port import TaskResult, TaskRun
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.storage.port import Storage

Manager = Callable[..., BackgroundTasks]


async def ends(tasks: BackgroundTasks, task_id: str) -> list[str]:
    return [
        move.target
        for move in await tasks.transitions(task_id)
        if TaskStatus(move.target) in TASK_TRANSITIONS.terminal
    ]


async def test_the_function_gets_its_arguments_and_gives_the_end(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    work.end(TaskStatus.PARTIALLY_SUCCEEDED, "some")
    assert await end_of(tasks, task_id) is TaskStatus.PARTIALLY_SUCCEEDED
    (run,) = work.runs
    assert (run.task_id, run.epoch, run.arguments) == (task_id, 1, {"of": "it"})
    assert not run.cancel_requested


async def test_an_exception_in_the_function_is_its_end(manager: Manager, storage: Storage) -> None:
    work = Work()
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage)
    work.fail(LookupError("gone"))
    assert await end_of(tasks, task_id) is TaskStatus.FAILED


async def test_it_is_inserted_with_the_transaction_of_its_caller(
    manager: Manager, storage: Storage
) -> None:
    tasks = manager(Work().function)

    def insert_and_fail(conn: Connection) -> None:
        tasks.insert_named(conn, name="n", function="work", arguments={}, owner_id="ada")
        raise Conflict

    with pytest.raises(Conflict):
        await storage.write(insert_and_fail)
    assert await tasks.list(owner_id=None, statuses=(), after=None, limit=10) == []


async def test_a_function_nobody_registered_is_a_defect(manager: Manager, storage: Storage) -> None:
    with pytest.raises(LookupError):
        await start_named(manager(), storage)


async def test_what_was_inserted_but_never_launched_is_run_by_whoever_looks(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage, launch=False)
    await tasks.start()
    work.end()
    assert await end_of(tasks, task_id) is TaskStatus.SUCCEEDED


async def test_a_launch_the_database_refuses_is_made_up_for(
    manager: Manager, storage: Storage
) -> None:
    work, unreliable = Work(), UnreliableStorage(storage)
    tasks = manager(work.function, storage=unreliable)
    task_id = await start_named(tasks, storage, launch=False)
    unreliable.down = True
    await tasks.launch(task_id)
    unreliable.down = False
    await tasks.start()
    work.end()
    assert await end_of(tasks, task_id) is TaskStatus.SUCCEEDED


async def test_launching_it_twice_runs_it_once(manager: Manager, storage: Storage) -> None:
    work = Work()
    tasks, other = manager(work.function), manager(work.function)
    task_id = await start_named(tasks, storage)
    await tasks.launch(task_id)
    await other.launch(task_id)
    work.end()
    await end_of(tasks, task_id)
    await tasks.launch(task_id)
    assert len(work.runs) == 1


async def test_another_manager_goes_on_when_its_own_died(
    manager: Manager, storage: Storage
) -> None:
    before, after = Work(), Work()
    dying = UnreliableStorage(storage)
    owner = manager(before.function, storage=dying, timing=DOZING)
    other = manager(after.function)
    task_id = await start_named(owner, storage)
    await within(before.begun.wait())
    dying.down = True
    await other.start()
    await within(after.begun.wait())
    assert after.runs[0].epoch == 2
    assert (await other.show(task_id)).status is TaskStatus.RUNNING
    after.end()
    assert await end_of(other, task_id) is TaskStatus.SUCCEEDED
    assert await ends(other, task_id) == ["succeeded"]


async def test_a_frozen_runner_that_wakes_up_after_the_takeover_writes_nothing(
    manager: Manager, storage: Storage
) -> None:
    before, after = Work(), Work()
    frozen, other = manager(before.function, timing=DOZING), manager(after.function)
    task_id = await start_named(frozen, storage)
    await within(before.begun.wait())
    await other.start()
    await within(after.begun.wait())
    await after.report(current=2, maximum=5, message="going on")

    async def written() -> bool:
        return (await other.show(task_id)).current == 2

    await eventually(written)
    await before.report(current=4, maximum=4, message="from the past")
    await within(before.cancelled.wait())  # its report was refused, so it knows
    view = await other.show(task_id)
    assert (view.status, view.current, view.total) == (TaskStatus.RUNNING, 2, 5)
    assert view.message == "going on"
    after.end(message="all")
    assert await end_of(other, task_id) is TaskStatus.SUCCEEDED


async def test_the_end_a_frozen_runner_brings_after_the_takeover_is_refused(
    manager: Manager, storage: Storage
) -> None:
    before, after = Work(), Work()
    frozen, other = manager(before.function, timing=DOZING), manager(after.function)
    task_id = await start_named(frozen, storage)
    await within(before.begun.wait())
    await other.start()
    await within(after.begun.wait())
    before.end(TaskStatus.FAILED, "from the past")

    async def gone() -> bool:
        return frozen.running == 0

    await eventually(gone)
    assert frozen.ended == {}
    assert (await other.show(task_id)).status is TaskStatus.RUNNING
    after.end()
    assert await end_of(other, task_id) is TaskStatus.SUCCEEDED
    assert await ends(other, task_id) == ["succeeded"]


async def test_a_loser_is_cancelled_at_its_renewal(manager: Manager, storage: Storage) -> None:
    before, after = Work(), Work()
    loser = manager(before.function, timing=replace(DOZING, renew=0.02))
    other = manager(after.function)
    task_id = await start_named(loser, storage)
    await within(before.begun.wait())
    await other.start()
    await within(after.begun.wait())
    await loser.start()
    await within(before.cancelled.wait())
    assert (await other.show(task_id)).status is TaskStatus.RUNNING


async def test_a_held_task_is_not_taken_over(manager: Manager, storage: Storage) -> None:
    held, lost, after = Work(), Work(), Work()
    owner, dozing = manager(held.function), manager(lost.function, timing=DOZING)
    other = manager(after.function)
    held_id = await start_named(owner, storage)
    lost_id = await start_named(dozing, storage)
    await other.start()
    after.end()
    assert await end_of(other, lost_id) is TaskStatus.SUCCEEDED
    assert [run.task_id for run in after.runs] == [lost_id]
    held.end()
    assert await end_of(other, held_id) is TaskStatus.SUCCEEDED


async def test_a_renewed_lease_holds(manager: Manager, storage: Storage) -> None:
    held, after = Work(), Work()
    owner = manager(held.function, timing=replace(BRISK, lease=0.0))
    task_id = await start_named(owner, storage)
    renewing = manager(timing=BRISK)
    renewing._runner.id = owner._runner.id
    renewing._runner.runs = owner._runner.runs
    await renewing._runner.renew()
    other = manager(after.function)
    await other._take_over()
    assert after.runs == []
    held.end()
    assert await end_of(owner, task_id) is TaskStatus.SUCCEEDED


async def test_a_planned_stop_hands_over_at_once(manager: Manager, storage: Storage) -> None:
    before, after = Work(), Work()
    owner = manager(before.function)
    other = manager(after.function, timing=replace(BRISK, take_over=3600.0))
    await owner.start()
    await other.start()
    task_id = await start_named(owner, storage)
    await within(before.begun.wait())
    await within(owner.stop())
    assert before.cancelled.is_set()
    await within(after.begun.wait())
    assert after.runs[0].epoch == 2
    after.end()
    assert await end_of(other, task_id) is TaskStatus.SUCCEEDED
    assert await ends(other, task_id) == ["succeeded"]


async def test_between_two_managers_it_still_runs(manager: Manager, storage: Storage) -> None:
    work = Work()
    owner = manager(work.function)
    task_id = await start_named(owner, storage)
    await within(work.begun.wait())
    await owner.stop()
    view = await owner.show(task_id)
    assert (view.status, view.ended_at) == (TaskStatus.RUNNING, None)
    await owner.launch(task_id)
    assert len(work.runs) == 1  # a stopped manager takes nothing


async def test_a_sole_manager_takes_all_at_once(manager: Manager, storage: Storage) -> None:
    before, after, ad_hoc = Work(), Work(), Work()
    dead = manager(before.function)
    named_id = await start_named(dead, storage)
    ad_hoc_id = await dead.start_background_task(ad_hoc.body, name="a", owner_id="ada")
    await within(before.begun.wait())
    await within(ad_hoc.begun.wait())
    sole = manager(after.function, timing=replace(BRISK, take_over=3600.0))
    await sole.start(sole_manager=True)
    after.end()
    assert await end_of(sole, named_id) is TaskStatus.SUCCEEDED
    assert await end_of(sole, ad_hoc_id) is TaskStatus.FAILED
    assert (await sole.show(ad_hoc_id)).message == "its manager ended"


async def test_cancelling_asks_the_function(manager: Manager, storage: Storage) -> None:
    work = Work(deaf=True)
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    view = await tasks.cancel(task_id, by="ada")
    assert (view.status, view.cancel_requested) == (TaskStatus.RUNNING, True)
    await within(work.runs[0].wait_cancel_requested())
    assert not work.cancelled.is_set()
    await tasks.cancel(task_id, by="ada")
    work.end(TaskStatus.SUCCEEDED, "done anyway")
    assert await end_of(tasks, task_id) is TaskStatus.SUCCEEDED
    with pytest.raises(Conflict):
        await tasks.cancel(task_id, by="ada")


async def test_a_pending_one_is_cancelled_at_once(manager: Manager, storage: Storage) -> None:
    work = Work()
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage, launch=False)
    assert (await tasks.cancel(task_id, by="ada")).status is TaskStatus.CANCELLED
    await tasks.launch(task_id)
    assert work.runs == []
    last = (await tasks.transitions(task_id))[-1]
    assert (last.target, last.by) == ("cancelled", "ada")


async def test_a_cancel_is_heard_by_the_manager_that_runs_it(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    owner, other = manager(work.function), manager()
    await owner.start()
    task_id = await start_named(owner, storage)
    await within(work.begun.wait())
    await other.cancel(task_id, by="ada")
    assert await end_of(other, task_id) is TaskStatus.CANCELLED


async def test_a_cancel_the_bus_lost_is_seen_at_the_renewal(
    manager: Manager, storage: Storage, bus: MemoryBus
) -> None:
    lossy = LossyBus(bus)
    lossy.losing = True
    work = Work()
    owner = manager(work.function, bus=lossy, timing=replace(BRISK, renew=0.02))
    other = manager(bus=lossy)
    await owner.start()
    task_id = await start_named(owner, storage)
    await within(work.begun.wait())
    await other.cancel(task_id, by="ada")
    assert await end_of(other, task_id) is TaskStatus.CANCELLED


async def test_who_takes_over_knows_of_the_cancel(manager: Manager, storage: Storage) -> None:
    before, after = Work(deaf=True), Work()
    owner, other = manager(before.function), manager(after.function)
    task_id = await start_named(owner, storage)
    await within(before.begun.wait())
    await owner.cancel(task_id, by="ada")
    await owner.stop()
    await other.start()
    assert await end_of(other, task_id) is TaskStatus.CANCELLED
    assert after.runs[0].cancel_requested


async def test_a_function_that_swallows_its_cancellation_does_not_hang_the_stop(
    manager: Manager, storage: Storage
) -> None:
    let_go, after = Work(), Work()

    async def stubborn(run: TaskRun) -> TaskResult:
        let_go.begun.set()
        while not run.cancel_requested:
            try:
                await run.wait_cancel_requested()
            except BaseException:  # noqa: BLE001 - it is to misbehave
                continue
        return TaskResult(TaskStatus.CANCELLED)

    owner, other = manager(stubborn), manager(after.function)
    task_id = await start_named(owner, storage)
    await within(let_go.begun.wait())
    run = owner._runner.runs[task_id]
    await within(owner.stop())
    await other.start()
    await within(after.begun.wait())
    run.request_cancel()  # it ends at last, and its end is refused
    after.end()
    assert await end_of(other, task_id) is TaskStatus.SUCCEEDED


async def test_the_stop_is_bounded_without_a_database(manager: Manager, storage: Storage) -> None:
    unreliable = UnreliableStorage(storage)
    work = Work()
    tasks = manager(work.function, storage=unreliable)
    await tasks.start()
    task_id = await start_named(tasks, storage)
    await within(work.begun.wait())
    unreliable.down = True
    work.end()
    await within(tasks.stop())
    assert (await manager().show(task_id)).status is TaskStatus.RUNNING
