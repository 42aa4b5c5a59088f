"""What belongs to a task: its items, their attempts and preparations. They end with it, and go
with it."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.states import (
    ATTEMPT_TRANSITIONS,
    ITEM_TRANSITIONS,
    TASK_TRANSITIONS,
    AttemptStatus,
    ItemStatus,
    TaskStatus,
)
from wharfinger.manager.background.port import TaskResult
from wharfinger.manager.gate import preparations
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import attempts, items, transitions
from wharfinger.manager.storage.transitions import move

_LEFT = Failure(FailureClass.INTERNAL, "its task ended before it")


def end(conn: Connection, task_id: str, result: TaskResult, *, by: str) -> None:
    """End what is open of a task that ends: nobody is left to do it.

    A function that returns has ended its items itself; a task that was cancelled before it began,
    or met a defect, has not. The agents stop attempts that are not current when they next report.
    """
    theirs = select(items.c.id).where(items.c.task_id == task_id)
    open_attempts = ATTEMPT_TRANSITIONS.sources(AttemptStatus.ABORTED)
    for attempt_id in conn.scalars(
        select(attempts.c.id).where(
            attempts.c.item_id.in_(theirs), attempts.c.status.in_(open_attempts)
        )
    ).all():
        move(
            conn,
            attempts,
            ATTEMPT_TRANSITIONS,
            attempt_id,
            open_attempts,
            AttemptStatus.ABORTED,
            reason="its task ended",
            by=by,
            ended_at=now(conn),
        )
    if result.status is TaskStatus.CANCELLED:
        target, failure, reason = ItemStatus.CANCELLED, None, "the task was cancelled"
    else:
        target, failure = ItemStatus.FAILED, result.failure or _LEFT
        reason = f"{failure.failure_class}: {failure.message}"
    open_items = ITEM_TRANSITIONS.sources(target)
    left = conn.scalars(theirs.where(items.c.status.in_(open_items))).all()
    preparations.release(conn, left)
    for item_id in left:
        move(
            conn,
            items,
            ITEM_TRANSITIONS,
            item_id,
            open_items,
            target,
            reason=reason,
            by=by,
            failure=failure.to_json() if failure else None,
            eta_seconds=None,
            next_try_at=None,
        )


def remove(conn: Connection, task_ids: Sequence[str]) -> None:
    """Remove the transition logs of these tasks and of all of theirs, before the tasks go.

    Items and attempts themselves go with their task by cascade.
    """
    theirs = select(items.c.id).where(items.c.task_id.in_(task_ids))
    for machine, ids in (
        (ATTEMPT_TRANSITIONS, select(attempts.c.id).where(attempts.c.item_id.in_(theirs))),
        (ITEM_TRANSITIONS, theirs),
        (TASK_TRANSITIONS, task_ids),
    ):
        conn.execute(
            delete(transitions).where(
                transitions.c.entity == machine.name, transitions.c.entity_id.in_(ids)
            )
        )
