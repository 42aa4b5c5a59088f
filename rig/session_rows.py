"""Sessions as rows, for tests of who looks at them, and what reads them back."""

from typing import Any

from sqlalchemy import Connection, insert, select

from wharfinger.domain.errors import UnknownId
from wharfinger.domain.states import KERNEL_TRANSITIONS, KernelStatus
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.views import KernelView, SessionView
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.transitions import begin, histories

LIFE = [
    KernelStatus.SCHEDULED,
    KernelStatus.PREPARING,
    KernelStatus.PULLING,
    KernelStatus.PREPARED,
    KernelStatus.CREATING,
    KernelStatus.RUNNING,
    KernelStatus.TERMINATING,
    KernelStatus.TERMINATED,
]
"""What follows PENDING when all goes well."""


def add_session(
    conn: Connection, session_id: str = "s1", *, kernel_count: int = 1, owner_id: str = "u1"
) -> None:
    """A session in the queue; its kernels are `<session>-k1` and so on."""
    at = now(conn)
    conn.execute(
        insert(tables.sessions).values(
            id=session_id, name=session_id, owner_id=owner_id, created_at=at
        )
    )
    for place in range(kernel_count):
        kernel_id = f"{session_id}-k{place + 1}"
        conn.execute(
            insert(tables.kernels).values(
                id=kernel_id,
                session_id=session_id,
                position=place,
                owner_id=owner_id,
                reference="h:5000/app:v1",
                registry="h:5000",
                cpu=1500,
                mem=2**30,
                gpu=0,
                command=[],
                environment={},
                status=KernelStatus.PENDING,
                status_info="",
                attempts=0,
                tries=0,
                agents_failed=0,
                calls=0,
                changed_at=at,
            )
        )
        begin(conn, KERNEL_TRANSITIONS, kernel_id, reason="created", by="user ann")


def advance(
    conn: Connection,
    kernel_id: str,
    /,
    *states: KernelStatus,
    upto: KernelStatus | None = None,
    **values: Any,
) -> None:
    """Move a kernel through these states, or (`upto`) through its usual life up to one."""
    if upto is not None:
        states = tuple(LIFE[: LIFE.index(upto) + 1])
    for state in states:
        (kernel,) = kernels.where(conn, tables.kernels.c.id == kernel_id, lock=True)
        moved = kernels.move(conn, kernel, state, reason="as told", by="test", **values)
        assert moved, (kernel_id, state)


def read_session(conn: Connection, session_id: str) -> SessionView:
    """The session as it is."""
    row = conn.execute(
        select(tables.sessions).where(tables.sessions.c.id == session_id)
    ).one_or_none()
    if row is None:
        raise UnknownId(f"There is no session {session_id!r}", id=session_id)
    found = kernels.of_session(conn, session_id)
    logs = histories(conn, KERNEL_TRANSITIONS.name, [kernel.id for kernel in found])
    return SessionView(
        row.id,
        row.name,
        row.owner_id,
        row.owner_id,
        row.scaling_group,
        row.created_at,
        row.ended_at,
        [KernelView(kernel, logs.get(kernel.id, [])) for kernel in found],
    )
