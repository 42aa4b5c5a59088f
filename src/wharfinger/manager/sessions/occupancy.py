"""What is taken, computed from the kernels whenever it is asked for: no counter that could drift."""

from collections.abc import Collection

from sqlalchemy import BigInteger, Cast, Column, Connection, cast, func, select

from wharfinger.domain.sessions import (
    AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES,
    USER_RESOURCE_OCCUPYING_KERNEL_STATUSES,
    WITH_CONTAINER,
)
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.storage.tables import kernels


def of_agents(conn: Connection, agent_ids: Collection[str] | None = None) -> dict[str, Slots]:
    """Slots taken on these agents (all of them when not told); who has none taken is left out."""
    return _taken(conn, kernels.c.agent_id, agent_ids, AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES)


def of_users(conn: Connection, user_ids: Collection[str] | None = None) -> dict[str, Slots]:
    """Slots these users are charged for: nothing for what still pulls."""
    return _taken(conn, kernels.c.owner_id, user_ids, USER_RESOURCE_OCCUPYING_KERNEL_STATUSES)


def admitted_of_users(conn: Connection, user_ids: Collection[str]) -> dict[str, Slots]:
    """Slots of those kernels of these users that were let start."""
    return _taken(conn, kernels.c.owner_id, user_ids, WITH_CONTAINER)


def active_sessions(conn: Connection, user_ids: Collection[str] | None = None) -> dict[str, int]:
    """How many sessions of these users occupy any agent: those that pull as well."""
    return _sessions(conn, kernels.c.owner_id, user_ids)


def sessions_on_agents(conn: Connection) -> dict[str, int]:
    """How many sessions occupy each agent."""
    return _sessions(conn, kernels.c.agent_id, None)


def _sessions(conn: Connection, whose: Column[str], ids: Collection[str] | None) -> dict[str, int]:
    query = (
        select(whose, func.count(kernels.c.session_id.distinct()))
        .where(kernels.c.status.in_(AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES))
        .group_by(whose)
    )
    if ids is not None:
        query = query.where(whose.in_(ids))
    return {each: count for each, count in conn.execute(query)}  # noqa: C416  # rows


def _taken(
    conn: Connection,
    whose: Column[str],
    ids: Collection[str] | None,
    statuses: Collection[KernelStatus],
) -> dict[str, Slots]:
    query = (
        select(
            whose.label("whose"),
            _sum(kernels.c.cpu).label("cpu"),
            _sum(kernels.c.mem).label("mem"),
            _sum(kernels.c.gpu).label("gpu"),
        )
        .where(kernels.c.status.in_(statuses))
        .group_by(whose)
    )
    if ids is not None:
        query = query.where(whose.in_(ids))
    return {row.whose: Slots(row.cpu, row.mem, row.gpu) for row in conn.execute(query)}


def _sum(column: Column[int]) -> Cast[int]:
    # PostgreSQL sums bigints up to a numeric
    return cast(func.sum(column), BigInteger)
