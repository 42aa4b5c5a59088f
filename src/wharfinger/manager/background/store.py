"""Tasks in the database. Whatever a runner writes is conditional on the epoch of its run.

A task is abandoned when it has not ended and no lease holds it. A named one may then be taken by
any manager, which opens a new epoch; an ad hoc one has died with its manager.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, or_, select, update

from wharfinger.domain.errors import Conflict, UnknownId
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.states import TASK_TRANSITIONS, TaskStatus
from wharfinger.manager.background import parts
from wharfinger.manager.background.port import TaskResult
from wharfinger.manager.background.turns import Turns, Waits
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import tasks
from wharfinger.manager.storage.transitions import begin, move

MANAGER_ENDED = TaskResult(
    TaskStatus.FAILED,
    "its manager ended",
    Failure(FailureClass.INTERNAL, "its manager ended"),
)

Noting = Callable[[Connection], None]
"""What a caller adds to a transaction, such as a note of who asked for it."""

_OPEN = tasks.c.status.in_(TASK_TRANSITIONS.open)
_NAMED = tasks.c.function.is_not(None)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a task is. `current` of `total`, in the task's own unit."""

    current: int
    total: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A task that one runner holds for one epoch. `function` is none for an ad hoc task."""

    task_id: str
    name: str
    function: str | None
    arguments: Mapping[str, Any]
    epoch: int
    progress: Progress
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """What a renewal finds of a task that is still held."""

    epoch: int
    cancel_requested: bool


def insert_named(
    conn: Connection,
    *,
    name: str,
    function: str,
    arguments: Mapping[str, Any],
    owner_id: str,
    unit: str,
    total: int,
    category: str | None,
) -> str:
    """A new named task that nobody holds yet; its id."""
    return _insert(
        conn,
        name=name,
        function=function,
        category=category,
        arguments=dict(arguments),
        owner_id=owner_id,
        unit=unit,
        total=total,
        epoch=0,
    )


def insert_ad_hoc(
    conn: Connection, *, name: str, owner_id: str, runner: str, lease_seconds: float
) -> Taken:
    """A new ad hoc task, held from its beginning by the manager that has its coroutine."""
    task_id = _insert(
        conn,
        name=name,
        function=None,
        arguments={},
        owner_id=owner_id,
        unit="items",
        total=0,
        epoch=1,
        runner=runner,
        lease_until=now(conn) + lease_seconds,
    )
    return Taken(task_id, name, None, {}, 1, Progress(0, 0), cancel_requested=False)


def start_ad_hoc(conn: Connection, task_id: str, *, runner: str) -> bool:
    """Its coroutine begins; False when the task has ended before."""
    return _run(conn, task_id, runner=runner, started_at=now(conn))


def take(
    conn: Connection, task_id: str, waits: Waits, *, runner: str, lease_seconds: float
) -> Taken | None:
    """Hold an abandoned named task for a new epoch; None when it cannot be had, or has to wait."""
    row = _locked(conn, task_id)
    at = now(conn)
    if row is None or row.function is None or row.ended_at is not None:
        return None
    if row.lease_until is not None and row.lease_until > at:
        return None
    if row.status == TaskStatus.PENDING and Turns.read(conn, waits).before(task_id):
        return None
    epoch = row.epoch + 1
    hold = {"runner": runner, "epoch": epoch, "lease_until": at + lease_seconds}
    if row.status == TaskStatus.PENDING:
        _run(conn, task_id, started_at=at, **hold)
    else:
        conn.execute(update(tasks).where(tasks.c.id == task_id).values(**hold))
    return Taken(
        task_id,
        row.name,
        row.function,
        row.arguments,
        epoch,
        Progress(row.current, row.total, row.message),
        row.cancel_requested,
    )


def renew(
    conn: Connection, held: Collection[str], *, runner: str, lease_seconds: float
) -> dict[str, Lease]:
    """Prolong the leases of `held`; those that come back are still this runner's.

    A lease that ran out unnoticed by others is as good as a new one.
    """
    mine = tasks.c.id.in_(held) & (tasks.c.runner == runner) & _OPEN
    conn.execute(update(tasks).where(mine).values(lease_until=now(conn) + lease_seconds))
    rows = conn.execute(select(tasks.c.id, tasks.c.epoch, tasks.c.cancel_requested).where(mine))
    return {row.id: Lease(row.epoch, row.cancel_requested) for row in rows}


def report(conn: Connection, task_id: str, epoch: int, progress: Progress) -> bool:
    """Note how far a run is; False when it is no longer the run of this task."""
    changed = conn.execute(
        update(tasks)
        .where(tasks.c.id == task_id, tasks.c.epoch == epoch, _OPEN)
        .values(**_progress(progress))
    )
    return changed.rowcount == 1


def finish(
    conn: Connection,
    task_id: str,
    epoch: int,
    result: TaskResult,
    progress: Progress,
    *,
    runner: str,
) -> bool:
    """The end of a task by its run; False when it has ended before, or is another's by now."""
    row = _locked(conn, task_id)
    if row is None or row.epoch != epoch:
        return False
    return _end(conn, task_id, result, by=_manager(runner), **_progress(progress))


def request_cancel(conn: Connection, task_id: str, *, by: str, noting: Noting | None) -> TaskStatus:
    """Ask for the end of a task; its status after that. What has not begun ends at once.

    `noting` is called in the same transaction, when it was not refused. Raises `UnknownId`, and `Conflict` for a task that ended otherwise than by being cancelled.
    """
    row = _locked(conn, task_id)
    if row is None:
        raise UnknownId(f"there is no task {task_id}", id=task_id)
    status = TaskStatus(row.status)
    if status in TASK_TRANSITIONS.terminal - {TaskStatus.CANCELLED}:
        raise Conflict(f"task {task_id} has ended: {status}", status=status.value)
    if noting is not None:
        noting(conn)
    if status is TaskStatus.PENDING:
        end = TaskResult(TaskStatus.CANCELLED, "cancelled before it began")
        _end(conn, task_id, end, by=by, cancel_requested=True)
        return TaskStatus.CANCELLED
    conn.execute(update(tasks).where(tasks.c.id == task_id).values(cancel_requested=True))
    return status


def abandoned(
    conn: Connection, waits: Waits, *, alive: Collection[str]
) -> list[tuple[str, str | None]]:
    """Id and function of the tasks that nobody holds and that need not wait, oldest first, but for
    those `alive` here."""
    turns = Turns.read(conn, waits)
    rows = conn.execute(
        select(tasks.c.id, tasks.c.function)
        .where(_OPEN, _unheld(conn), tasks.c.id.not_in(alive))
        .order_by(tasks.c.created_at, tasks.c.id)
    )
    return [(row.id, row.function) for row in rows if not turns.before(row.id)]


def end_abandoned(conn: Connection, task_id: str, *, runner: str) -> bool:
    """The end of an ad hoc task whose manager is dead; False when it is not so."""
    open_and_unheld = select(tasks.c.id).where(tasks.c.id == task_id, ~_NAMED, _OPEN, _unheld(conn))
    if conn.execute(open_and_unheld.with_for_update()).scalar_one_or_none() is None:
        return False
    return _end(conn, task_id, MANAGER_ENDED, by=_manager(runner))


def void_leases(conn: Connection, *, runner: str) -> None:
    """All other runners are dead: their tasks are abandoned."""
    others = or_(tasks.c.runner.is_(None), tasks.c.runner != runner)
    conn.execute(update(tasks).where(_OPEN, others).values(runner=None, lease_until=None))


def leave(conn: Connection, *, runner: str) -> tuple[list[str], list[str]]:
    """A runner stops by plan. Named tasks are abandoned at once, ad hoc ones end; their ids."""
    mine = (tasks.c.runner == runner) & _OPEN
    named = list(conn.execute(select(tasks.c.id).where(mine, _NAMED)).scalars())
    conn.execute(update(tasks).where(mine, _NAMED).values(runner=None, lease_until=None))
    ad_hoc = list(conn.execute(select(tasks.c.id).where(mine, ~_NAMED)).scalars())
    return named, [
        task_id for task_id in ad_hoc if _end(conn, task_id, MANAGER_ENDED, by=_manager(runner))
    ]


def remove_ended(conn: Connection, *, older_than: float, limit: int) -> int:
    """Remove up to `limit` tasks that ended more than `older_than` seconds ago, and all of theirs."""
    old = list(
        conn.execute(
            select(tasks.c.id)
            .where(tasks.c.ended_at < now(conn) - older_than)
            .order_by(tasks.c.ended_at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        ).scalars()
    )
    parts.remove(conn, old)
    conn.execute(delete(tasks).where(tasks.c.id.in_(old)))
    return len(old)


def _insert(conn: Connection, **values: Any) -> str:
    task_id = new_id()
    conn.execute(
        insert(tasks).values(
            id=task_id,
            status=TaskStatus.PENDING,
            cancel_requested=False,
            current=0,
            message="",
            created_at=now(conn),
            **values,
        )
    )
    begin(conn, TASK_TRANSITIONS, task_id, reason="asked for", by=values["owner_id"])
    return task_id


def _run(conn: Connection, task_id: str, *, runner: str, **values: Any) -> bool:
    return move(
        conn,
        tasks,
        TASK_TRANSITIONS,
        task_id,
        (TaskStatus.PENDING,),
        TaskStatus.RUNNING,
        reason=TASK_TRANSITIONS.edges[TaskStatus.PENDING][TaskStatus.RUNNING],
        by=_manager(runner),
        runner=runner,
        **values,
    )


def _end(conn: Connection, task_id: str, result: TaskResult, *, by: str, **values: Any) -> bool:
    failure = result.failure
    message = result.message or (failure.message if failure else "")
    if message:
        values["message"] = _text(message)
    ended = move(
        conn,
        tasks,
        TASK_TRANSITIONS,
        task_id,
        TASK_TRANSITIONS.sources(result.status),
        result.status,
        reason=_text(message) or result.status.value,
        by=by,
        failure=failure.to_json() if failure else None,
        detail=result.detail,
        ended_at=now(conn),
        runner=None,
        lease_until=None,
        **values,
    )
    if ended:
        parts.end(conn, task_id, result, by=by)
    return ended


def _locked(conn: Connection, task_id: str) -> Row[Any] | None:
    return conn.execute(select(tasks).where(tasks.c.id == task_id).with_for_update()).one_or_none()


def _unheld(conn: Connection) -> ColumnElement[bool]:
    return or_(tasks.c.lease_until.is_(None), tasks.c.lease_until <= now(conn))


def _progress(progress: Progress) -> dict[str, Any]:
    return {
        "current": progress.current,
        "total": progress.total,
        "message": _text(progress.message),
    }


def _text(text: str) -> str:
    """PostgreSQL keeps no NUL in a text, and raw texts of others may hold one."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _manager(runner: str) -> str:
    return f"manager {runner}"
