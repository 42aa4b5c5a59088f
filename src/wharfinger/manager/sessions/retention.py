"""Forgetting: sessions that ended long ago, and what nothing refers to any more."""

from typing import Final

from sqlalchemy import Connection, delete, exists, select

from wharfinger.domain.states import ATTEMPT_TRANSITIONS, KERNEL_TRANSITIONS, AgentStatus
from wharfinger.manager.loops import Loop
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.tables import (
    agents,
    attempts,
    avoided_images,
    images,
    kernels,
    leftovers,
    resolved_images,
    sessions,
    transitions,
)

KEEP: Final = 7 * 86400.0
"""Seconds that ended sessions are kept."""
_REMOVED_AT_ONCE: Final = 100
_YOUNG: Final = 3600.0
"""Seconds in which somebody may be about to refer to what was just resolved."""


class Retention:
    """The loop that forgets. Start and stop it by its own `start` and `stop`."""

    def __init__(self, storage: Storage, *, keep: float = KEEP, period: float = 600.0) -> None:
        self._storage = storage
        self._keep = keep
        self.loop = Loop("sessions.retention", self.run_once, period)

    async def start(self) -> None:
        """Begin."""
        self.loop.start()

    async def stop(self) -> None:
        """Finish what runs."""
        await self.loop.stop()

    async def run_once(self) -> None:
        """Remove what is old, a batch per transaction."""
        while await self._storage.write(remove_ended, self._keep) == _REMOVED_AT_ONCE:
            pass
        await self._storage.write(remove_unused)


def remove_ended(conn: Connection, keep: float) -> int:
    """Remove some of the sessions that ended more than `keep` seconds ago, with all of theirs; how
    many."""
    old = conn.scalars(
        select(sessions.c.id)
        .where(sessions.c.ended_at < now(conn) - keep)
        .order_by(sessions.c.ended_at)
        .limit(_REMOVED_AT_ONCE)
        .with_for_update(skip_locked=True)
    ).all()
    if not old:
        return 0
    theirs = select(kernels.c.id).where(kernels.c.session_id.in_(old))
    for machine, ids in (
        (ATTEMPT_TRANSITIONS, select(attempts.c.id).where(attempts.c.kernel_id.in_(theirs))),
        (KERNEL_TRANSITIONS, theirs),
    ):
        conn.execute(
            delete(transitions).where(
                transitions.c.entity == machine.name, transitions.c.entity_id.in_(ids)
            )
        )
    conn.execute(delete(sessions).where(sessions.c.id.in_(old)))
    return len(old)


def remove_unused(conn: Connection) -> None:
    """Remove what digests consist of that nothing names, agents that are avoided no longer, and
    what was left over on agents that were removed."""
    digest = resolved_images.c.root_digest
    conn.execute(
        delete(resolved_images).where(
            resolved_images.c.resolved_at < now(conn) - _YOUNG,
            ~exists().where(kernels.c.root_digest == digest),
            ~exists().where(images.c.root_digest == digest),
        )
    )
    conn.execute(delete(avoided_images).where(avoided_images.c.until < now(conn)))
    retired = select(agents.c.id).where(agents.c.status == AgentStatus.RETIRED)
    conn.execute(delete(leftovers).where(leftovers.c.agent_id.in_(retired)))
