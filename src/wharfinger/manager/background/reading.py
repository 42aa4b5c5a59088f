"""Tasks as they are shown: one with its items, or a page of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, tuple_

from wharfinger.domain.errors import InvalidRequest, UnknownId
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.states import TASK_TRANSITIONS, TaskStatus
from wharfinger.manager.background.port import ItemsOf, TaskView
from wharfinger.manager.background.turns import Turns, Waits, sentence
from wharfinger.manager.storage.tables import tasks


@dataclass(frozen=True, slots=True)
class Reading:
    """A task with its items, and the epoch it was read in."""

    view: TaskView
    epoch: int

    @property
    def ended(self) -> bool:
        """Whether it has reached its end."""
        return self.view.status in TASK_TRANSITIONS.terminal


def show(conn: Connection, task_id: str, items_of: Mapping[str, ItemsOf], waits: Waits) -> Reading:
    """One task with its items, as its function's `ItemsOf` reads them. Raises `UnknownId`."""
    row = conn.execute(select(tasks).where(tasks.c.id == task_id)).one_or_none()
    if row is None:
        raise _unknown(task_id)
    read = items_of.get(row.function)
    return Reading(
        _view(row, _turns(conn, (row,), waits), read(conn, task_id) if read else ()), row.epoch
    )


def require(conn: Connection, task_id: str) -> None:
    """Raise `UnknownId` unless there is such a task."""
    if conn.execute(select(tasks.c.id).where(tasks.c.id == task_id)).one_or_none() is None:
        raise _unknown(task_id)


def page(
    conn: Connection,
    waits: Waits,
    *,
    owner_id: str | None,
    statuses: Collection[TaskStatus],
    after: str | None,
    limit: int,
) -> list[TaskView]:
    """Up to `limit` tasks, newest first, without their items.

    `owner_id` None means everybody's, no `statuses` any. `after` is the id of the task the page
    follows; raises `InvalidRequest` when that is gone.
    """
    query = select(tasks).order_by(tasks.c.created_at.desc(), tasks.c.id.desc()).limit(limit)
    if owner_id is not None:
        query = query.where(tasks.c.owner_id == owner_id)
    if statuses:
        query = query.where(tasks.c.status.in_(statuses))
    if after is not None:
        place = select(tasks.c.created_at, tasks.c.id).where(tasks.c.id == after)
        last = conn.execute(place).one_or_none()
        if last is None:
            raise InvalidRequest(f"the task {after!r} that the page is to follow is gone")
        query = query.where(tuple_(tasks.c.created_at, tasks.c.id) < tuple(last))
    rows = conn.execute(query).all()
    turns = _turns(conn, rows, waits)
    return [_view(row, turns, ()) for row in rows]


def _turns(conn: Connection, rows: Sequence[Row[Any]], waits: Waits) -> Turns:
    """Whose turn it is, where that matters: among rows that are pending."""
    pending = any(row.status == TaskStatus.PENDING and row.category in waits for row in rows)
    return Turns.read(conn, waits if pending else {})


def _view(row: Row[Any], turns: Turns, its_items: Sequence[Mapping[str, Any]]) -> TaskView:
    awaited = turns.before(row.id)
    failure = row.failure and Failure(
        FailureClass(row.failure["class"]), row.failure["message"], row.failure["detail"]
    )
    return TaskView(
        id=row.id,
        name=row.name,
        owner_id=row.owner_id,
        status=TaskStatus(row.status),
        cancel_requested=row.cancel_requested,
        current=row.current,
        total=row.total,
        unit=row.unit,
        message=sentence(awaited) or row.message,
        failure=failure,
        detail=row.detail,
        waits_for=[place.task_id for place in awaited],
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        items=its_items,
    )


def _unknown(task_id: str) -> UnknownId:
    return UnknownId(f"there is no task {task_id}", id=task_id)
