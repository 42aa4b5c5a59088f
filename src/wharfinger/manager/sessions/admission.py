"""Who may start: sessions that are prepared as a whole, as far as their users' quotas go.

The quota is checked a second time here, since it charges nobody while a host downloads.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select

from wharfinger.domain.sessions import OPEN, WITH_CONTAINER, Reason
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.access.limits import Limits, locked
from wharfinger.manager.sessions import endings, kernels, occupancy
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables

_READY = (KernelStatus.PREPARED, *WITH_CONTAINER)


def owners_ready(conn: Connection) -> list[str]:
    """The owners of sessions that have something prepared and nothing left to prepare."""
    owners = {found[0].owner_id for found in _ready(conn, lock=False)}
    return sorted(owners)


def admit(conn: Connection, owner_ids: Sequence[str], *, by: str) -> bool:
    """Let what is ready of these users start, the oldest first; whether anything changed.

    A session over its user's quota goes back to the queue as a whole; one that has begun to start
    is not stopped by a quota any more.
    """
    limits = locked(conn, owner_ids)
    usage = dict.fromkeys(owner_ids, Slots()) | occupancy.admitted_of_users(conn, owner_ids)
    changed = False
    for found in _ready(conn, lock=True):
        owner_id = found[0].owner_id
        prepared = [kernel for kernel in found if kernel.status is KernelStatus.PREPARED]
        if owner_id not in owner_ids or not _all_up(conn, prepared):
            continue
        asked = Slots.total(kernel.slots for kernel in prepared)
        total = usage[owner_id] + asked
        exceeds = limits.get(owner_id, Limits()).slots.exceeded_by(total)
        if exceeds and len(prepared) == len(found):
            changed |= endings.release(
                conn,
                found[0].session_id,
                reason=f"over its user's quota: {', '.join(exceeds)}",
                by=by,
                info=Reason.USER_QUOTA_EXCEEDED,
                data={
                    "exceeds": exceeds,
                    "occupied": usage[owner_id].to_json(),
                    "asked": asked.to_json(),
                },
            )
            continue
        usage[owner_id] = total
        for kernel in prepared:
            changed |= kernels.move(
                conn,
                kernel,
                KernelStatus.CREATING,
                reason="all of its session are prepared",
                by=by,
                next_try_at=None,
            )
    return changed


def _ready(conn: Connection, *, lock: bool) -> list[Sequence[Kernel]]:
    """All kernels of each session that is ready, oldest session first."""
    table = tables.kernels
    prepared = select(table.c.session_id).where(table.c.status == KernelStatus.PREPARED)
    waiting = select(table.c.session_id).where(
        table.c.status.in_([status for status in OPEN if status not in _READY])
    )
    found = kernels.where(
        conn,
        table.c.session_id.in_(prepared),
        table.c.session_id.not_in(waiting),
        lock=lock,
    )
    return list(kernels.sessions_of(found).values())


def _all_up(conn: Connection, prepared: Collection[Kernel]) -> bool:
    """Whether every agent that is to make a container answers: the sweep sends others back."""
    wanted = {kernel.agent_id for kernel in prepared}
    agents = tables.agents
    up = conn.scalars(
        select(agents.c.id).where(agents.c.id.in_(wanted), agents.c.status == AgentStatus.UP)
    ).all()
    return len(up) == len(wanted)
