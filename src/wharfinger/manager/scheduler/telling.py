"""The rest of a round's transactions: giving slots back, and saying why others wait."""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, update

from wharfinger.domain.states import KernelStatus
from wharfinger.manager.scheduler.decisions import Release, Word
from wharfinger.manager.sessions import endings
from wharfinger.manager.sessions import kernels as rows
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import kernels, sessions


def release(conn: Connection, told: Release, *, by: str) -> bool:
    """Send the bound kernels of a session back to the queue, if a sibling still waits there."""
    siblings = rows.of_session(conn, told.session_id, lock=True)
    if not any(kernel.status is KernelStatus.PENDING for kernel in siblings):
        return False
    return endings.release(
        conn,
        told.session_id,
        reason=f"the rest of its session cannot be placed: {told.hold.info}",
        by=by,
        info=told.hold.info,
        data=told.hold.data,
    )


def explain(conn: Connection, words: Sequence[Word]) -> bool:
    """Have kernels say what they wait for, those that still do; whether any does."""
    changed = conn.execute(
        update(kernels)
        .where(kernels.c.id == bindparam("kernel_id"), kernels.c.status == KernelStatus.PENDING)
        .values(status_info=bindparam("info"), status_data=bindparam("data")),
        [
            {
                "kernel_id": word.kernel_id,
                "info": word.hold.info if word.hold else "",
                "data": word.hold.data if word.hold else None,
            }
            for word in sorted(words, key=lambda word: word.kernel_id)
        ],
    )
    return changed.rowcount > 0


def note_blocked(conn: Connection, blocked: Sequence[str], unblocked: Sequence[str]) -> None:
    """Keep since when sessions have been first in their line and without room."""
    conn.execute(
        update(sessions)
        .where(sessions.c.id.in_(blocked), sessions.c.blocked_since.is_(None))
        .values(blocked_since=now(conn))
    )
    conn.execute(update(sessions).where(sessions.c.id.in_(unblocked)).values(blocked_since=None))


def note_held(conn: Connection, held: Sequence[str]) -> None:
    """Keep when sessions were first held back for the preparation of an image."""
    conn.execute(
        update(sessions)
        .where(sessions.c.id.in_(held), sessions.c.held_since.is_(None))
        .values(held_since=now(conn))
    )
