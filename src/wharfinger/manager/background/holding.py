"""The condition of everything that the function of a named task writes."""

from sqlalchemy import Connection, select

from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import LostTask
from wharfinger.manager.storage.tables import tasks


def hold(conn: Connection, task_id: str, epoch: int) -> None:
    """Lock the task's row for this run of it; raises `LostTask` when it is another's by now."""
    row = conn.execute(
        select(tasks.c.epoch, tasks.c.status).where(tasks.c.id == task_id).with_for_update()
    ).one_or_none()
    if row is None or row.epoch != epoch or row.status != TaskStatus.RUNNING:
        raise LostTask(f"task {task_id} is no longer run as epoch {epoch}")
