"""Containers of ours that no current kernel claims: noted, and removed until they are gone.

A kernel that ends leaves its container here in the same transaction, so that it is removed
whatever dies meanwhile; others are found in the agents' reports.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from sqlalchemy import Connection, and_, delete, or_, select, update

from wharfinger.domain.sessions import TERMINAL, WITH_CONTAINER, Reason
from wharfinger.domain.states import AgentStatus
from wharfinger.manager.sessions import covering
from wharfinger.manager.sessions import kernels as rows
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import agents, kernel_logs, kernels, leftovers

_SETTLING: Final = 3.0
"""Seconds before one found in a report is touched: the listing may be a moment old."""
_REMOVED_AT_ONCE: Final = 15.0
"""Seconds in which whoever ended a kernel removes its container."""
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 600.0


class Leftover(NamedTuple):
    """One to be ended and removed now; `want_log` of a known kernel whose log was not kept."""

    agent_id: str
    kernel_id: str
    want_log: bool


def note_listed(conn: Connection, agent_id: str, listed: Mapping[str, str]) -> bool:
    """Know exactly these containers (by kernel) as left over on an agent; whether any is new."""
    known = dict(
        conn.execute(
            select(leftovers.c.kernel_id, leftovers.c.container_id).where(
                leftovers.c.agent_id == agent_id
            )
        ).all()
    )
    gone = known.keys() - listed.keys()
    if gone:
        confirm_removed(conn, agent_id, gone)
    new = {
        kernel_id: container_id
        for kernel_id, container_id in listed.items()
        if known.get(kernel_id) != container_id
    }
    for kernel_id, container_id in new.items():
        note(conn, agent_id, kernel_id, container_id, due_in=_SETTLING)
    return bool(new)


def note(
    conn: Connection,
    agent_id: str,
    kernel_id: str,
    container_id: str,
    *,
    due_in: float = _REMOVED_AT_ONCE,
) -> None:
    """This container is to be removed, by the loop after `due_in` seconds if by nobody before."""
    at = now(conn)
    key = {"agent_id": agent_id, "kernel_id": kernel_id}
    values = {
        "container_id": container_id,
        "problem": "",
        "tries": 0,
        "next_try_at": at + due_in,
        "found_at": at,
    }
    put(conn, leftovers, key, values)


def due(conn: Connection) -> list[Leftover]:
    """Those on agents that are UP whose turn has come, by agent."""
    nobodys = or_(
        kernels.c.id.is_(None),
        kernels.c.agent_id.is_distinct_from(leftovers.c.agent_id),
        kernels.c.status.not_in(WITH_CONTAINER),
    )
    wants_log = and_(
        kernels.c.id.is_not(None),
        kernels.c.status.in_(TERMINAL),
        kernels.c.agent_id == leftovers.c.agent_id,
        kernel_logs.c.kernel_id.is_(None),
    )
    found = conn.execute(
        select(leftovers.c.agent_id, leftovers.c.kernel_id, wants_log)
        .join(agents, agents.c.id == leftovers.c.agent_id)
        .outerjoin(kernels, kernels.c.id == leftovers.c.kernel_id)
        .outerjoin(kernel_logs, kernel_logs.c.kernel_id == leftovers.c.kernel_id)
        .where(agents.c.status == AgentStatus.UP, leftovers.c.next_try_at <= now(conn), nobodys)
        .order_by(leftovers.c.agent_id, leftovers.c.next_try_at)
    )
    return [
        Leftover(agent_id, kernel_id, bool(want_log)) for agent_id, kernel_id, want_log in found
    ]


def confirm_removed(conn: Connection, agent_id: str, kernel_ids: Collection[str]) -> None:
    """Their containers are gone; kernels that told of them do so no longer."""
    conn.execute(
        delete(leftovers).where(
            leftovers.c.agent_id == agent_id, leftovers.c.kernel_id.in_(kernel_ids)
        )
    )
    for kernel in rows.where(
        conn,
        kernels.c.id.in_(kernel_ids),
        kernels.c.agent_id == agent_id,
        kernels.c.status_info == Reason.CONTAINER_LEFT,
    ):
        covering.uncover(conn, kernel)


def note_problem(conn: Connection, agent_id: str, kernel_id: str, problem: str) -> bool:
    """It could not be removed, by the engine's text; tried again later and later, and told on the
    kernel that has ended. Whether that text is news."""
    row = conn.execute(
        select(leftovers.c.problem, leftovers.c.tries)
        .where(leftovers.c.agent_id == agent_id, leftovers.c.kernel_id == kernel_id)
        .with_for_update()
    ).one_or_none()
    if row is None:
        return False
    pause = min(_FIRST_PAUSE * 2 ** min(row.tries, 10), _LONGEST_PAUSE)
    conn.execute(
        update(leftovers)
        .where(leftovers.c.agent_id == agent_id, leftovers.c.kernel_id == kernel_id)
        .values(problem=problem, tries=row.tries + 1, next_try_at=now(conn) + pause)
    )
    for kernel in rows.where(
        conn,
        kernels.c.id == kernel_id,
        kernels.c.agent_id == agent_id,
        kernels.c.status.in_(TERMINAL),
    ):
        left = {"agentId": agent_id, "problem": problem}
        covering.cover(conn, kernel, Reason.CONTAINER_LEFT, left)
    return bool(row.problem != problem)
