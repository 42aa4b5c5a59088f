"""The items, attempts and preparations of a task end with it, whatever ended it."""

import asyncio
from collections.abc import Callable

from rig.rows import insert_agent
from rig.tasks import Work, end_of, start_named, within
from sqlalchemy import Connection

from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.references import Reference
from wharfinger.domain.states import ITEM_TRANSITIONS, ItemStatus, TaskStatus
from wharfinger.manager.background.port import LostTask, TaskResult, TaskRun
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.gate import preparations
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import ItemRow, NewItem
from wharfinger.manager.pulls import attempts
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.transitions import history

Manager = Callable[..., BackgroundTasks]
REFERENCE = Reference.parse("h.test/one:v1")


def add_parts(conn: Connection, task_id: str) -> None:
    """One item that has ended, one that waits, one with an attempt in flight."""
    names = ("a-ended", "b-waits", "c-pulls")
    for agent_id in names:
        insert_agent(conn, agent_id)
    new = [NewItem(agent_id, str(REFERENCE), "sha256:1") for agent_id in names]
    rows.add(conn, task_id, new, by="test")
    ended, _, pulls = rows.of_task(conn, task_id)
    rows.skip(conn, ended, "there", by="test")
    assert rows.run(
        conn,
        pulls.id,
        PreparationKind.PRELOAD,
        ImageKeys(str(REFERENCE)),
        phase=pulls.phase,
        by="test",
    )
    assert preparations.of_task(conn, task_id)
    attempts.create(
        conn,
        item_id=pulls.id,
        agent_id=pulls.agent_id,
        reference=REFERENCE,
        root_digest="sha256:1",
        by="test",
    )


async def parts(storage: Storage, task_id: str) -> list[ItemRow]:
    assert not await storage.read(attempts.in_flight)
    assert not await storage.read(preparations.of_task, task_id)
    return await storage.read(rows.of_task, task_id)


async def test_a_task_cancelled_before_it_began_cancels_its_items(
    manager: Manager, storage: Storage
) -> None:
    tasks = manager(Work().function)
    task_id = await start_named(tasks, storage, launch=False)
    await storage.write(add_parts, task_id)
    await tasks.cancel(task_id, by="ada")
    found = await parts(storage, task_id)
    assert [item.status for item in found] == ["skipped", "cancelled", "cancelled"]
    log = await storage.read(history, ITEM_TRANSITIONS.name, found[1].id)
    assert [(move.source, move.target, move.by) for move in log[1:]] == [
        ("queued", "cancelled", "ada")
    ]


async def test_a_defect_of_the_function_fails_what_it_left_open(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage, launch=False)
    await storage.write(add_parts, task_id)
    work.fail(RuntimeError("oh"))
    await tasks.launch(task_id)
    assert await end_of(tasks, task_id) is TaskStatus.FAILED
    found = await parts(storage, task_id)
    assert [item.status for item in found] == ["skipped", "failed", "failed"]
    assert found[2].failure is not None
    assert "oh" in found[2].failure.message


async def test_no_item_is_left_open_by_a_function_that_forgot_it(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    tasks = manager(work.function)
    task_id = await start_named(tasks, storage, launch=False)
    await storage.write(add_parts, task_id)
    work.end(TaskStatus.SUCCEEDED)
    await tasks.launch(task_id)
    assert await end_of(tasks, task_id) is TaskStatus.SUCCEEDED
    found = await parts(storage, task_id)
    assert [item.status for item in found] == [ItemStatus.SKIPPED, "failed", "failed"]


async def test_a_run_that_finds_its_task_lost_ends_without_a_word(
    manager: Manager, storage: Storage
) -> None:
    begun = asyncio.Event()

    async def function(run: TaskRun) -> TaskResult:
        assert run.epoch == 1
        begun.set()
        raise LostTask

    tasks = manager(function)
    task_id = await start_named(tasks, storage)
    await within(begun.wait())
    await tasks.stop()
    assert (await tasks.show(task_id)).status is TaskStatus.RUNNING
