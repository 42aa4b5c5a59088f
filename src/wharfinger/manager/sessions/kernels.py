"""The kernels' rows, and the one way to change a kernel's state.

Whoever moves a kernel first reads it (`of_session`, `where`, with `lock`) and gives what was read:
a move from another state than that one changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, exists, select, update

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.sessions import OPEN, TERMINAL, Reason
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import KERNEL_TRANSITIONS, KernelStatus
from wharfinger.manager.storage import transitions
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import kernels, sessions


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row. `due` tells whether it may be tried now; `ends_as` what a TERMINATING one becomes;
    `agents_failed`, `tries` on `tried_on` and `failing_since` count failures in a row."""

    id: str
    session_id: str
    position: int
    owner_id: str
    reference: str
    registry: str
    root_digest: str | None
    slots: Slots
    command: tuple[str, ...]
    environment: Mapping[str, str]
    status: KernelStatus
    status_info: Reason | None
    status_data: Mapping[str, Any] | None
    agent_id: str | None
    attempt_id: str | None
    image_id: str | None
    container_id: str | None
    attempts: int
    tries: int
    tried_on: str | None
    agents_failed: int
    failing_since: float | None
    next_try_at: float | None
    due: bool
    calls: int
    accepted_begun: int | None
    ends_as: KernelStatus | None
    exit_code: int | None
    failure: Failure | None
    changed_at: float
    started_at: float | None
    ended_at: float | None

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.status not in TERMINAL


def of_session(conn: Connection, session_id: str, *, lock: bool = False) -> list[Kernel]:
    """A session's kernels, the main one first."""
    return where(conn, kernels.c.session_id == session_id, lock=lock)


def where(conn: Connection, *conditions: ColumnElement[bool], lock: bool = False) -> list[Kernel]:
    """Kernels by session (oldest first) and position. Locked, they are as the last commit left
    them."""
    query = (
        select(kernels)
        .join(sessions, sessions.c.id == kernels.c.session_id)
        .where(*conditions)
        .order_by(sessions.c.created_at, sessions.c.id, kernels.c.position)
    )
    if lock:
        query = query.with_for_update(of=kernels)
    at = now(conn)
    return [_kernel(row, at) for row in conn.execute(query)]


def move(
    conn: Connection,
    kernel: Kernel,
    target: KernelStatus,
    *,
    reason: str,
    by: str,
    info: Reason | None = None,
    data: Mapping[str, Any] | None = None,
    **values: Any,
) -> bool:
    """Move it from the state it was read in; False when it is in another one by now.

    `info` and `data` say why it is there, and replace what was said before. A terminal state closes
    the session with its last kernel.
    """
    at = now(conn)
    if target in TERMINAL:
        values["ended_at"] = at
    moved = transitions.move(
        conn,
        kernels,
        KERNEL_TRANSITIONS,
        kernel.id,
        (kernel.status,),
        target,
        reason=reason,
        by=by,
        status_info=info or "",
        status_data=data,
        changed_at=at,
        calls=0,
        **values,
    )
    if moved and target in TERMINAL:
        _close_session(conn, kernel.session_id, at)
    return moved


def explain(
    conn: Connection,
    kernel: Kernel,
    info: Reason | None,
    data: Mapping[str, Any] | None = None,
) -> bool:
    """Say why it is where it is; whether that is news."""
    if (kernel.status_info, kernel.status_data) == (info, data):
        return False
    changed = conn.execute(
        update(kernels)
        .where(kernels.c.id == kernel.id, kernels.c.status == kernel.status)
        .values(status_info=info or "", status_data=data)
    )
    return changed.rowcount == 1


def back_to_queue(
    conn: Connection,
    kernel: Kernel,
    *,
    reason: str,
    by: str,
    info: Reason | None = None,
    data: Mapping[str, Any] | None = None,
    **values: Any,
) -> bool:
    """PENDING again, bound to nothing. Its age in the queue is its session's, so it keeps it."""
    return move(
        conn,
        kernel,
        KernelStatus.PENDING,
        reason=reason,
        by=by,
        info=info,
        data=data,
        agent_id=None,
        attempt_id=None,
        image_id=None,
        container_id=None,
        accepted_begun=None,
        **values,
    )


def _close_session(conn: Connection, session_id: str, at: float) -> None:
    # the row's lock makes the last two kernels of a session end one after the other
    conn.execute(select(sessions.c.id).where(sessions.c.id == session_id).with_for_update())
    conn.execute(
        update(sessions)
        .where(
            sessions.c.id == session_id,
            sessions.c.ended_at.is_(None),
            ~exists().where(kernels.c.session_id == session_id, kernels.c.status.in_(OPEN)),
        )
        .values(ended_at=at)
    )


def failure_from_json(document: Mapping[str, Any] | None) -> Failure | None:
    """The reverse of `Failure.to_json`."""
    if document is None:
        return None
    return Failure(FailureClass(document["class"]), document["message"], document["detail"])


def _kernel(row: Row[Any], at: float) -> Kernel:
    return Kernel(
        id=row.id,
        session_id=row.session_id,
        position=row.position,
        owner_id=row.owner_id,
        reference=row.reference,
        registry=row.registry,
        root_digest=row.root_digest,
        slots=Slots(row.cpu, row.mem, row.gpu),
        command=tuple(row.command),
        environment=row.environment,
        status=KernelStatus(row.status),
        status_info=Reason(row.status_info) if row.status_info else None,
        status_data=row.status_data,
        agent_id=row.agent_id,
        attempt_id=row.attempt_id,
        image_id=row.image_id,
        container_id=row.container_id,
        attempts=row.attempts,
        tries=row.tries,
        tried_on=row.tried_on,
        agents_failed=row.agents_failed,
        failing_since=row.failing_since,
        next_try_at=row.next_try_at,
        due=row.next_try_at is None or row.next_try_at <= at,
        calls=row.calls,
        accepted_begun=row.accepted_begun,
        ends_as=KernelStatus(row.ends_as) if row.ends_as else None,
        exit_code=row.exit_code,
        failure=failure_from_json(row.failure),
        changed_at=row.changed_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def sessions_of(found: Sequence[Kernel]) -> dict[str, list[Kernel]]:
    """Kernels by session, in their order."""
    grouped: dict[str, list[Kernel]] = {}
    for kernel in found:
        grouped.setdefault(kernel.session_id, []).append(kernel)
    return grouped
