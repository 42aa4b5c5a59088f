"""The storage port: what every adapter does, on real databases."""

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Table, delete, func, insert, select, update

from wharfinger.domain.errors import Conflict, IllegalTransition
from wharfinger.domain.states import (
    TASK_TRANSITIONS,
    TaskStatus,
)
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.errors import ConstraintViolated, StorageClosed
from wharfinger.manager.storage.opening import open_storage
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.tables import (
    agents,
    attempts,
    images,
    items,
    tasks,
    tokens,
    transitions,
    users,
)
from wharfinger.manager.storage.transitions import histories, move, move_all

PATIENCE = 10.0  # for a signal that must come


class Refused(Exception):
    """A function's own error."""


def add_image(conn: Connection, reference: str, size: int = 0) -> None:
    conn.execute(
        insert(images).values(
            reference=reference,
            registry="h.test",
            repository="h.test/lab",
            root_digest="d",
            size=size,
            platforms=[],
            labels={},
            status="known",
            updated_at=0.0,
        )
    )


def image_size(conn: Connection, reference: str = "counter") -> int:
    query = select(images.c.size).where(images.c.reference == reference)
    return int(conn.execute(query).scalar_one())


def set_image_size(conn: Connection, size: int, reference: str = "counter") -> None:
    conn.execute(update(images).where(images.c.reference == reference).values(size=size))


def count_images(conn: Connection) -> int:
    return conn.execute(select(func.count()).select_from(images)).scalar_one()


def add_row(conn: Connection, table: Table, row: dict[str, Any]) -> None:
    conn.execute(insert(table).values(row))


def add_user(conn: Connection, /, user_id: str, **values: Any) -> None:
    row = {"id": user_id, "name": user_id, "role": "user", "created_at": 0.0}
    add_row(conn, users, row | values)


def add_token(conn: Connection, token_id: str, user_id: str) -> None:
    row = {"id": token_id, "user_id": user_id, "sha256": token_id, "label": "", "created_at": 0.0}
    add_row(conn, tokens, row)


def add_task(conn: Connection, /, task_id: str, status: str = "pending", **values: Any) -> None:
    row = {
        "id": task_id,
        "name": "preload",
        "owner_id": "u",
        "status": status,
        "cancel_requested": False,
        "current": 0,
        "total": 0,
        "unit": "items",
        "message": "",
        "arguments": {},
        "epoch": 0,
        "created_at": 0.0,
    }
    add_row(conn, tasks, row | values)


def task_status(conn: Connection, task_id: str) -> str:
    return str(conn.execute(select(tasks.c.status).where(tasks.c.id == task_id)).scalar_one())


def history(conn: Connection) -> list[tuple[str | None, str]]:
    rows = conn.execute(select(transitions.c["from"], transitions.c.to).order_by(transitions.c.id))
    return [(row[0], row[1]) for row in rows]


# ------------------------------------------------------------------- transactions


async def test_what_a_function_returns_is_returned_and_what_it_wrote_is_there(
    storage: Storage,
) -> None:
    def add_and_count(conn: Connection, *references: str, size: int) -> int:
        for reference in references:
            add_image(conn, reference, size=size)
        return count_images(conn)

    assert await storage.write(add_and_count, "a", "b", size=3) == 2
    assert await storage.read(image_size, reference="b") == 3


async def test_what_a_function_raises_comes_through_and_nothing_it_wrote_stays(
    storage: Storage,
) -> None:
    def add_and_refuse(conn: Connection) -> None:
        add_image(conn, "a")
        raise Refused

    with pytest.raises(Refused):
        await storage.write(add_and_refuse)
    assert await storage.read(count_images) == 0


async def test_a_failed_transaction_does_not_spoil_the_next(storage: Storage) -> None:
    await storage.write(add_user, "ann")
    for _ in range(20):
        with pytest.raises(ConstraintViolated):
            await storage.write(add_user, "ann")
    await storage.write(add_user, "bob")


async def test_a_read_cannot_write(storage: Storage) -> None:
    with pytest.raises(Exception, match=r"read-only|readonly"):
        await storage.read(add_image, "a")
    assert await storage.read(count_images) == 0


async def test_a_write_after_a_read_on_the_same_storage_may_write(storage: Storage) -> None:
    for number in range(20):
        assert await storage.read(count_images) == number
        await storage.write(add_image, str(number))


# -------------------------------------------------------------------- concurrency


def increment(conn: Connection) -> None:
    """Careless on purpose: it reads without a lock."""
    set_image_size(conn, image_size(conn) + 1)


async def test_no_update_is_lost(storage: Storage) -> None:
    await storage.write(add_image, "counter")
    await asyncio.gather(*(storage.write(increment) for _ in range(200)))
    assert await storage.read(image_size) == 200


async def test_no_update_is_lost_between_two_managers(storage: Storage, storage_url: str) -> None:
    other = open_storage(storage_url)
    await storage.write(add_image, "counter")
    await asyncio.gather(*(each.write(increment) for _ in range(50) for each in (storage, other)))
    assert await other.read(image_size) == 100
    await other.close()


async def test_a_limit_that_is_counted_before_inserting_holds(storage: Storage) -> None:
    def add_unless_three(conn: Connection, reference: str) -> bool:
        if count_images(conn) >= 3:
            return False
        add_image(conn, reference)
        return True

    added = await asyncio.gather(*(storage.write(add_unless_three, str(n)) for n in range(20)))
    assert added.count(True) == 3
    assert await storage.read(count_images) == 3


async def test_locks_taken_crosswise_end_for_both(storage: Storage) -> None:
    await storage.write(add_image, "a")
    await storage.write(add_image, "b")

    def touch(conn: Connection, first: str, second: str) -> None:
        set_image_size(conn, image_size(conn, first) + 1, first)
        set_image_size(conn, image_size(conn, second) + 1, second)

    crosswise = [("a", "b"), ("b", "a")] * 20
    await asyncio.gather(*(storage.write(touch, first, second) for first, second in crosswise))
    assert await storage.read(image_size, "a") == 40
    assert await storage.read(image_size, "b") == 40


async def test_a_read_sees_one_moment_and_holds_nobody_up(storage: Storage) -> None:
    looked, written = threading.Event(), threading.Event()

    def look_twice(conn: Connection) -> tuple[int, int]:
        before = count_images(conn)
        looked.set()
        assert written.wait(PATIENCE)
        return before, count_images(conn)

    reading = asyncio.create_task(storage.read(look_twice))
    assert await asyncio.to_thread(looked.wait, PATIENCE)
    await storage.write(add_image, "a")
    written.set()
    assert await reading == (0, 0)
    assert await storage.read(count_images) == 1


async def test_the_event_loop_goes_on_while_a_transaction_runs(storage: Storage) -> None:
    released = threading.Event()

    def wait_for_the_loop(_conn: Connection) -> bool:
        return released.wait(PATIENCE)

    running = asyncio.create_task(storage.write(wait_for_the_loop))
    await asyncio.sleep(0)
    released.set()
    assert await running


# ---------------------------------------------------------- cancelling and closing


class Held:
    """A function that stands still in its transaction until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, conn: Connection, reference: str) -> None:
        add_image(conn, reference)
        self.entered.set()
        assert self.let_go.wait(PATIENCE)


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_who_waits_does_not_tear_the_transaction(
    storage: Storage, storage_url: str
) -> None:
    held = Held()
    waiting = asyncio.create_task(storage.write(held, "a"))
    assert await asyncio.to_thread(held.entered.wait, PATIENCE)
    await cancel(waiting)
    assert await storage.read(count_images) == 0
    held.let_go.set()
    await storage.close()
    later = open_storage(storage_url)
    assert await later.read(count_images) == 1
    await later.close()


async def test_a_transaction_cancelled_before_it_began_never_does(
    storage: Storage, storage_url: str
) -> None:
    held = [Held() for _ in range(9)]  # more than there are threads
    waiting = [asyncio.create_task(storage.write(each, str(n))) for n, each in enumerate(held)]
    assert await asyncio.to_thread(held[0].entered.wait, PATIENCE)
    await cancel(waiting.pop())
    for each in held:
        each.let_go.set()
    await asyncio.gather(*waiting)
    await storage.close()
    assert not held[-1].entered.is_set()
    later = open_storage(storage_url)
    assert await later.read(count_images) == len(waiting)
    await later.close()


async def test_closing_waits_for_what_runs(storage: Storage, storage_url: str) -> None:
    held = Held()
    writing = asyncio.create_task(storage.write(held, "a"))
    assert await asyncio.to_thread(held.entered.wait, PATIENCE)
    queued = [asyncio.create_task(storage.write(add_image, str(n))) for n in range(9)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(storage.close())
    await asyncio.sleep(0)
    assert not closing.done()
    held.let_go.set()
    await closing
    await asyncio.gather(writing, *queued)
    later = open_storage(storage_url)
    assert await later.read(count_images) == 10
    await later.close()


async def test_a_closed_storage_says_so(storage: Storage) -> None:
    await storage.write(add_image, "a")
    await storage.close()
    await storage.close()
    with pytest.raises(StorageClosed):
        await storage.read(count_images)
    with pytest.raises(StorageClosed):
        await storage.write(add_image, "b")


# ---------------------------------------------------------------- rules and types


async def test_a_name_is_given_once(storage: Storage) -> None:
    await storage.write(add_user, "u1", name="ann")
    with pytest.raises(ConstraintViolated, match=r"users.name|uq_users_name") as refused:
        await storage.write(add_user, "u2", name="ann")
    assert isinstance(refused.value, Conflict)


async def test_a_row_needs_what_it_refers_to(storage: Storage) -> None:
    with pytest.raises(ConstraintViolated):
        await storage.write(add_token, "t", "nobody")


async def test_what_refers_to_a_row_goes_with_it(storage: Storage) -> None:
    await storage.write(add_user, "u")
    await storage.write(add_token, "t", "u")
    await storage.write(lambda conn: conn.execute(delete(users)).rowcount)
    assert await storage.read(lambda conn: conn.execute(select(tokens)).all()) == []


@pytest.mark.parametrize("table", [agents, tasks, items, attempts], ids=str)
async def test_no_status_but_those_of_the_table_is_stored(storage: Storage, table: Table) -> None:
    filler: dict[type, Any] = {str: "x", int: 0, float: 0.0, bool: False, object: {}}
    row = {
        column.name: filler[column.type.python_type]
        for column in table.c
        if not column.nullable and not column.foreign_keys
    }
    if table is items:
        await storage.write(add_task, "t")
        row["task_id"] = "t"
    with pytest.raises(ConstraintViolated, match=r"status|one_end"):
        await storage.write(add_row, table, row)


@pytest.mark.parametrize(
    ("status", "ended_at"), [("running", 1.0), ("succeeded", None), ("cancelled", None)]
)
async def test_a_task_has_an_end_exactly_when_it_has_ended(
    storage: Storage, status: str, ended_at: float | None
) -> None:
    with pytest.raises(ConstraintViolated, match="one_end"):
        await storage.write(add_task, "t", status, ended_at=ended_at)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner),
    max_leaves=6,
)


@settings(
    max_examples=20,
    deadline=None,  # it waits for a database
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(value=st.dictionaries(st.sampled_from(["a", "b", "ü"]), json_values))
async def test_json_comes_back_as_it_went(storage: Storage, value: dict[str, Any]) -> None:
    def round_trip(conn: Connection) -> Any:
        conn.execute(delete(tasks))
        add_task(conn, "t", arguments=value)
        return conn.execute(select(tasks.c.arguments)).scalar_one()

    assert await storage.write(round_trip) == value


async def test_json_that_is_not_given_is_none(storage: Storage) -> None:
    await storage.write(add_task, "left out")
    await storage.write(add_task, "none", failure=None)
    rows = await storage.read(lambda conn: conn.execute(select(tasks.c.failure)).scalars().all())
    assert rows == [None, None]


async def test_sizes_beyond_32_bits_and_fractions_of_seconds_are_kept(storage: Storage) -> None:
    await storage.write(add_task, "t", total=2**40, created_at=1_796_000_000.123456)
    row = await storage.read(lambda conn: conn.execute(select(tasks)).one())
    assert (row.total, row.created_at) == (2**40, 1_796_000_000.123456)


async def test_the_clock_goes_on_within_a_transaction(storage: Storage) -> None:
    def twice(conn: Connection) -> tuple[float, float]:
        first = now(conn)
        while (second := now(conn)) == first:
            pass
        return first, second

    first, second = await storage.read(twice)
    assert 1_700_000_000 < first < second < first + PATIENCE


# -------------------------------------------------------------------- transitions


async def test_a_move_changes_the_row_and_leaves_a_log(storage: Storage) -> None:
    await storage.write(add_task, "t")
    moved = await storage.write(
        move, tasks, TASK_TRANSITIONS, "t", [TaskStatus.PENDING], TaskStatus.RUNNING,
        reason="taken", by="m1", runner="m1",
    )  # fmt: skip
    assert moved
    row = await storage.read(lambda conn: conn.execute(select(tasks)).one())
    assert (row.status, row.runner) == ("running", "m1")
    log = await storage.read(lambda conn: conn.execute(select(transitions)).mappings().one())
    assert {key: log[key] for key in ("entity", "entity_id", "from", "to", "reason", "by")} == {
        "entity": "task",
        "entity_id": "t",
        "from": "pending",
        "to": "running",
        "reason": "taken",
        "by": "m1",
    }


async def test_a_move_from_a_state_that_is_past_changes_nothing(storage: Storage) -> None:
    await storage.write(add_task, "t", "cancelled", ended_at=1.0)
    for task_id in ("t", "no such"):
        assert not await storage.write(
            move, tasks, TASK_TRANSITIONS, task_id, [TaskStatus.RUNNING], TaskStatus.SUCCEEDED,
            reason="done", by="m1", ended_at=2.0,
        )  # fmt: skip
    assert await storage.read(task_status, "t") == "cancelled"
    assert await storage.read(history) == []


async def test_an_illegal_move_is_a_defect(storage: Storage) -> None:
    await storage.write(add_task, "t", "succeeded", ended_at=1.0)
    with pytest.raises(IllegalTransition):
        await storage.write(
            move, tasks, TASK_TRANSITIONS, "t", [TaskStatus.SUCCEEDED], TaskStatus.RUNNING,
            reason="again", by="m1",
        )  # fmt: skip


async def test_of_concurrent_movers_exactly_one_wins(storage: Storage) -> None:
    await storage.write(add_task, "t", "running")
    ends = [TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED]
    moved = await asyncio.gather(
        *(
            storage.write(
                move, tasks, TASK_TRANSITIONS, "t", [TaskStatus.RUNNING], ends[number % 3],
                reason="raced", by=str(number), ended_at=float(number),
            )
            for number in range(30)
        )
    )  # fmt: skip
    assert moved.count(True) == 1
    winner = moved.index(True)
    assert await storage.read(task_status, "t") == ends[winner % 3]
    assert await storage.read(history) == [("running", ends[winner % 3])]


async def test_many_rows_move_at_once_each_with_its_own_values(storage: Storage) -> None:
    for task_id in ("t1", "t2"):
        await storage.write(add_task, task_id)
    await storage.write(add_task, "t3", "running")

    moved = await storage.write(
        move_all,
        tasks,
        TASK_TRANSITIONS,
        {name: {"runner": f"m-{name}"} for name in ("t1", "t2", "t3", "no such")},
        TaskStatus.PENDING,
        TaskStatus.RUNNING,
        reason="taken",
        by="m1",
    )

    assert moved == {"t1", "t2"}
    rows = await storage.read(
        lambda conn: conn.execute(select(tasks.c.id, tasks.c.runner, tasks.c.status)).all()
    )
    assert {row.id: row.runner for row in rows} == {"t1": "m-t1", "t2": "m-t2", "t3": None}
    assert {row.status for row in rows} == {"running"}
    logs = await storage.read(histories, "task", ["t1", "t2", "t3"])
    assert {name: [(m.source, m.target) for m in log] for name, log in logs.items()} == {
        "t1": [("pending", "running")],
        "t2": [("pending", "running")],
    }


async def test_an_illegal_move_of_many_is_a_defect(storage: Storage) -> None:
    with pytest.raises(IllegalTransition):
        await storage.write(
            move_all, tasks, TASK_TRANSITIONS, {}, TaskStatus.SUCCEEDED, TaskStatus.RUNNING,
            reason="again", by="m1",
        )  # fmt: skip


async def test_of_many_that_move_the_same_rows_each_row_goes_with_one(storage: Storage) -> None:
    names = [f"t{number}" for number in range(20)]
    for task_id in names:
        await storage.write(add_task, task_id)
    moved = await asyncio.gather(
        *(
            storage.write(
                move_all, tasks, TASK_TRANSITIONS, {n: {"runner": f"m{who}"} for n in names},
                TaskStatus.PENDING, TaskStatus.RUNNING, reason="raced", by=f"m{who}",
            )
            for who in range(8)
        )
    )  # fmt: skip
    assert sorted(name for each in moved for name in each) == sorted(names)
    assert len(await storage.read(history)) == len(names)
