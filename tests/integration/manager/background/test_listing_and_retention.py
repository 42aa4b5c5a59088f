"""Lists of tasks, and how long they are kept."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from rig.tasks import BRISK, Work, end_of, eventually, start_named, within
from sqlalchemy import Connection, func, insert, select, update

from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.states import (
    ATTEMPT_TRANSITIONS,
    ITEM_TRANSITIONS,
    AttemptStatus,
    ItemStatus,
    TaskStatus,
)
from wharfinger.manager.background import store
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.tables import attempts, items, tasks, transitions
from wharfinger.manager.storage.transitions import begin

Manager = Callable[..., BackgroundTasks]

WEEK = 7 * 86400.0


async def listed(
    service: BackgroundTasks,
    *,
    owner_id: str | None = None,
    statuses: tuple[TaskStatus, ...] = (),
    after: str | None = None,
    limit: int = 100,
) -> list[str]:
    views = await service.list(owner_id=owner_id, statuses=statuses, after=after, limit=limit)
    return [view.id for view in views]


async def start_many(service: BackgroundTasks, storage: Storage, count: int) -> list[str]:
    return [await start_named(service, storage, launch=False) for _ in range(count)]


async def test_tasks_are_listed_newest_first_page_by_page(
    manager: Manager, storage: Storage
) -> None:
    service = manager(Work().function)
    ids = await start_many(service, storage, 5)

    def at_one_moment(conn: Connection) -> None:
        conn.execute(update(tasks).where(tasks.c.id.in_(ids[1:4])).values(created_at=1.0))
        conn.execute(update(tasks).where(tasks.c.id == ids[0]).values(created_at=0.0))

    await storage.write(at_one_moment)
    everything = await listed(service)
    assert everything == [ids[4], *sorted(ids[1:4], reverse=True), ids[0]]
    seen: list[str] = []
    while page := await listed(service, after=seen[-1] if seen else None, limit=2):
        seen += page
    assert seen == everything


async def test_a_list_is_of_one_owner_or_of_all_and_of_the_statuses_asked_for(
    manager: Manager, storage: Storage
) -> None:
    service = manager(Work().function)
    adas = await start_named(service, storage, launch=False)
    bobs = await start_named(service, storage, launch=False, owner_id="bob")
    await service.cancel(bobs, by="bob")
    assert await listed(service, owner_id="ada") == [adas]
    assert await listed(service, owner_id="bob") == [bobs]
    assert await listed(service) == [bobs, adas]
    assert await listed(service, statuses=(TaskStatus.PENDING,)) == [adas]
    assert await listed(service, statuses=(TaskStatus.CANCELLED,)) == [bobs]


async def test_a_page_after_a_task_that_is_gone_is_refused(manager: Manager) -> None:
    with pytest.raises(InvalidRequest):
        await listed(manager(), after="gone")


def insert_parts(conn: Connection, task_id: str) -> None:
    """One item with one attempt."""
    item_id, attempt_id = f"item-of-{task_id}", f"attempt-of-{task_id}"
    conn.execute(
        insert(items).values(
            id=item_id,
            task_id=task_id,
            agent_id="a",
            reference="r",
            status=ItemStatus.QUEUED,
            phase="queued",
            attempts=1,
            bytes_done=0,
            bytes_total=0,
            kept_by=[],
        )
    )
    begin(conn, ITEM_TRANSITIONS, item_id, reason="asked for", by="test")
    conn.execute(
        insert(attempts).values(
            id=attempt_id,
            item_id=item_id,
            agent_id="a",
            registry="r",
            reference="r",
            root_digest="d",
            pinned="r@d",
            look_only=False,
            status=AttemptStatus.SENT,
            sends=1,
            created_at=now(conn),
        )
    )
    begin(conn, ATTEMPT_TRANSITIONS, attempt_id, reason="asked for", by="test")


def age(conn: Connection, task_ids: list[str], seconds: float) -> None:
    conn.execute(
        update(tasks)
        .where(tasks.c.id.in_(task_ids))
        .values(status=TaskStatus.SUCCEEDED, ended_at=now(conn) - seconds)
    )


def everything_of(conn: Connection, task_id: str) -> int:
    """How many rows of any kind there are about it."""
    its_rows = (
        select(func.count()).select_from(tasks).where(tasks.c.id == task_id),
        select(func.count()).select_from(items).where(items.c.task_id == task_id),
        select(func.count()).select_from(attempts).where(attempts.c.item_id.endswith(task_id)),
        select(func.count())
        .select_from(transitions)
        .where(transitions.c.entity_id.endswith(task_id)),
    )
    return sum(conn.execute(query).scalar_one() for query in its_rows)


async def test_old_tasks_go_with_all_that_is_theirs_and_others_stay(
    manager: Manager, storage: Storage
) -> None:
    service = manager(Work().function)
    old, young, running = await start_many(service, storage, 3)
    for task_id in (old, young, running):
        await storage.write(insert_parts, task_id)
    await storage.write(age, [old], WEEK + 60)
    await storage.write(age, [young], WEEK - 60)
    assert await storage.write(store.remove_ended, older_than=WEEK, limit=10) == 1
    assert await storage.read(everything_of, old) == 0
    assert await storage.read(everything_of, young) == 6
    assert await storage.read(everything_of, running) == 6


async def test_removal_goes_in_bounded_batches(manager: Manager, storage: Storage) -> None:
    service = manager(Work().function)
    ids = await start_many(service, storage, 5)
    await storage.write(age, ids, WEEK + 60)
    removed = [await storage.write(store.remove_ended, older_than=WEEK, limit=2) for _ in range(4)]
    assert removed == [2, 2, 1, 0]


async def test_a_started_manager_removes_what_was_kept_long_enough(
    manager: Manager, storage: Storage
) -> None:
    work = Work()
    service = manager(work.function, timing=replace(BRISK, keep=0.0, remove=0.02))
    task_id = await start_named(service, storage)
    await within(work.begun.wait())
    work.end()
    await end_of(service, task_id)
    await service.start()

    async def gone() -> bool:
        return await listed(service) == []

    await eventually(gone)
