"""The items of a preload or an unload: one row per agent and image.

Only the task's runner moves them, and only while its epoch is current. A running item has its
preparation, and no other has one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from wharfinger.domain.failures import Failure, FailureClass, retry_delay
from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.progress import Phase
from wharfinger.domain.states import ITEM_TRANSITIONS, ItemStatus, TaskStatus
from wharfinger.manager.background.port import Item, TaskResult
from wharfinger.manager.gate import preparations
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import items
from wharfinger.manager.storage.transitions import begin_all, move

OPEN = ITEM_TRANSITIONS.open
SUCCESSFUL = (ItemStatus.DONE, ItemStatus.SKIPPED)


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item. `due` tells whether a queued one may be tried now."""

    id: str
    agent_id: str
    reference: str
    root_digest: str | None
    status: ItemStatus
    phase: Phase
    attempts: int
    failure: Failure | None
    bytes_done: int
    bytes_total: int
    kept_by: tuple[str, ...]
    due: bool

    def to_json(self, *, rate: float | None = None, eta: float | None = None) -> Item:
        """As the interfaces show it."""
        return {
            "agentId": self.agent_id,
            "reference": self.reference,
            "rootDigest": self.root_digest,
            "status": self.status.value,
            "phase": self.phase.value,
            "attempts": self.attempts,
            "failure": self.failure.to_json() if self.failure else None,
            "bytesDone": self.bytes_done,
            "bytesTotal": self.bytes_total,
            "bytesPerSecond": rate,
            "etaSeconds": eta,
            "keptBy": list(self.kept_by),
        }


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to be. One with a `failure` is failed from its start."""

    agent_id: str
    reference: str
    root_digest: str | None = None
    bytes_total: int = 0
    failure: Failure | None = None


def add(conn: Connection, task_id: str, new: Iterable[NewItem], *, by: str) -> None:
    """Insert the items of a new task: one, at least."""
    by_id = {new_id(): item for item in new}
    conn.execute(
        insert(items),
        [
            {
                "id": item_id,
                "task_id": task_id,
                "agent_id": item.agent_id,
                "reference": item.reference,
                "root_digest": item.root_digest,
                "status": ItemStatus.QUEUED,
                "phase": Phase.QUEUED,
                "attempts": 0,
                "bytes_done": 0,
                "bytes_total": item.bytes_total,
                "kept_by": [],
            }
            for item_id, item in by_id.items()
        ],
    )
    begin_all(conn, ITEM_TRANSITIONS, list(by_id), reason="asked for", by=by)
    for item_id, item in by_id.items():
        if item.failure is not None:
            fail(conn, item_id, item.failure, by=by)


def of_task(conn: Connection, task_id: str) -> list[ItemRow]:
    """All items of a task, by agent and reference."""
    at = now(conn)
    rows = conn.execute(
        select(items)
        .where(items.c.task_id == task_id)
        .order_by(items.c.agent_id, items.c.reference)
    )
    return [_item(row, at) for row in rows]


def unchanged(conn: Connection, seen: Sequence[ItemRow]) -> list[ItemRow]:
    """Those of the items that still are in the state and the try they were seen in: what a call
    ended meanwhile is not its to end."""
    ids = [item.id for item in seen]
    found = conn.execute(
        select(items.c.id, items.c.status, items.c.attempts).where(items.c.id.in_(ids))
    )
    now_at = {row.id: (row.status, row.attempts) for row in found}
    return [item for item in seen if now_at.get(item.id) == (item.status, item.attempts)]


def as_json(conn: Connection, task_id: str, /) -> list[Item]:
    """All items of a task as the interfaces show them (`ItemsOf` of the task framework)."""
    return [item.to_json() for item in of_task(conn, task_id)]


def run(
    conn: Connection,
    item_id: str,
    kind: PreparationKind,
    keys: ImageKeys,
    *,
    phase: Phase,
    by: str,
) -> bool:
    """Its turn came: one more attempt, and its preparation begins. The caller has locked the agent.

    False when another's preparation of this image is under way there: it goes on waiting.
    """
    return preparations.begin(conn, item_id, kind, keys) and move(
        conn,
        items,
        ITEM_TRANSITIONS,
        item_id,
        (ItemStatus.QUEUED,),
        ItemStatus.RUNNING,
        reason="its turn came",
        by=by,
        phase=phase,
        attempts=items.c.attempts + 1,
        failure=None,
        next_try_at=None,
    )


def done(conn: Connection, item: ItemRow, *, by: str, kept_by: Sequence[str] = ()) -> bool:
    """Done, and seen on the host."""
    return _end(
        conn,
        item.id,
        ItemStatus.DONE,
        "seen on the host",
        by,
        phase=Phase.VERIFYING,
        bytes_done=items.c.bytes_total,
        failure=None,
        kept_by=list(kept_by),
    )


def skip(conn: Connection, item: ItemRow, reason: str, *, by: str) -> bool:
    """Nothing to do there; False when the item is no longer in the state it was seen in."""
    return _end(
        conn,
        item.id,
        ItemStatus.SKIPPED,
        reason,
        by,
        sources=(item.status,),
        phase=Phase.VERIFYING,
        bytes_done=items.c.bytes_total,
        failure=None,
    )


def fail(conn: Connection, item_id: str, failure: Failure, *, by: str, **values: Any) -> bool:
    """Cannot be done there."""
    return _end(
        conn,
        item_id,
        ItemStatus.FAILED,
        f"{failure.failure_class}: {failure.message}",
        by,
        failure=failure.to_json(),
        **values,
    )


def cancel(conn: Connection, item_id: str, *, by: str) -> bool:
    """Stopped, or never begun, since the task was cancelled."""
    return _end(conn, item_id, ItemStatus.CANCELLED, "the task was cancelled", by)


def fail_or_retry(
    conn: Connection, item: ItemRow, failure: Failure, *, tries: int, by: str
) -> bool:
    """After `tries` failed attempts: queued for another by the failure's delay, or failed."""
    delay = retry_delay(failure, tries)
    if delay is None:
        return fail(conn, item.id, failure, by=by, attempts=tries)
    values: dict[str, Any] = {
        "phase": Phase.RETRYING,
        "failure": failure.to_json(),
        "next_try_at": now(conn) + delay,
        "attempts": tries,
    }
    if item.status is ItemStatus.QUEUED:
        conn.execute(update(items).where(items.c.id == item.id).values(**values))
        return True
    return _move_on(
        conn,
        item.id,
        (ItemStatus.RUNNING,),
        ItemStatus.QUEUED,
        reason=f"again in {delay:g} s after {failure.failure_class}: {failure.message}",
        by=by,
        **values,
    )


def note_progress(
    conn: Connection, item_id: str, phase: Phase, bytes_done: int, eta_seconds: float | None
) -> None:
    """How far a running item is; what comes late for one that ended, or waits again, is dropped."""
    conn.execute(
        update(items)
        .where(items.c.id == item_id, items.c.status == ItemStatus.RUNNING)
        .values(phase=phase, bytes_done=bytes_done, eta_seconds=eta_seconds)
    )


def result(ended: Sequence[ItemRow], doing: str) -> TaskResult:
    """The one end of a task whose items all ended."""
    good = [item for item in ended if item.status in SUCCESSFUL]
    if any(item.status is ItemStatus.CANCELLED for item in ended):
        status = TaskStatus.CANCELLED
    elif len(good) == len(ended):
        status = TaskStatus.SUCCEEDED
    else:
        status = TaskStatus.PARTIALLY_SUCCEEDED if good else TaskStatus.FAILED
    counts = [
        f"{sum(item.status is word for item in ended)} {word.value}"
        for word in ItemStatus
        if any(item.status is word for item in ended)
    ]
    return TaskResult(status, f"{doing}: {', '.join(counts)}")


def _end(
    conn: Connection,
    item_id: str,
    status: ItemStatus,
    reason: str,
    by: str,
    *,
    sources: Sequence[ItemStatus] = OPEN,
    **values: Any,
) -> bool:
    return _move_on(
        conn, item_id, sources, status, reason=reason, by=by, next_try_at=None, **values
    )


def _move_on(
    conn: Connection,
    item_id: str,
    sources: Sequence[ItemStatus],
    target: ItemStatus,
    *,
    reason: str,
    by: str,
    **values: Any,
) -> bool:
    """Every way out of running: the preparation goes with it."""
    moved = move(
        conn,
        items,
        ITEM_TRANSITIONS,
        item_id,
        sources,
        target,
        reason=reason,
        by=by,
        eta_seconds=None,
        **values,
    )
    if moved:
        preparations.release(conn, (item_id,))
    return moved


def _item(row: Row[Any], at: float) -> ItemRow:
    failure = row.failure and Failure(
        FailureClass(row.failure["class"]), row.failure["message"], row.failure["detail"]
    )
    return ItemRow(
        id=row.id,
        agent_id=row.agent_id,
        reference=row.reference,
        root_digest=row.root_digest,
        status=ItemStatus(row.status),
        phase=Phase(row.phase),
        attempts=row.attempts,
        failure=failure,
        bytes_done=row.bytes_done,
        bytes_total=row.bytes_total,
        kept_by=tuple(row.kept_by),
        due=row.next_try_at is None or row.next_try_at <= at,
    )
