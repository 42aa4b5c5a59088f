"""Reading the picture of a round: a fixed number of statements, however long the queue is."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any

from sqlalchemy import Connection, select

from wharfinger.domain.platforms import Platform
from wharfinger.domain.sessions import (
    AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES,
    WITH_CONTAINER,
    Reason,
)
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.access.limits import Limits
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.gate import preparations
from wharfinger.manager.pulls import attempts
from wharfinger.manager.scheduler.picture import (
    Account,
    Avoidance,
    Host,
    Picture,
    Rest,
    WaitingKernel,
    WaitingSession,
)
from wharfinger.manager.sessions import occupancy
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import (
    agent_images,
    agents,
    avoided_images,
    kernels,
    sessions,
    users,
)

_BRINGING = (KernelStatus.SCHEDULED, KernelStatus.PREPARING, KernelStatus.PULLING)
"""Bound, and its image not seen yet."""


def read_picture(conn: Connection) -> Picture:
    """What is, in the snapshot of this transaction."""
    at = now(conn)
    waiting = _sessions(conn)
    digests = {
        kernel.root_digest
        for session in waiting
        for kernel in session.kernels
        if kernel.root_digest is not None
    }
    bound = _bound_images(conn)
    holders = _holders(conn, digests | {digest for _, digest in bound})
    return Picture(
        at=at,
        sessions=waiting,
        hosts=_hosts(conn),
        accounts=_accounts(conn),
        platforms=resolved.platforms(conn, digests),
        holders=holders,
        avoided=_avoided(conn, at),
        pulls=_pulls_in_flight(conn)
        | {(agent_id, digest) for agent_id, digest in bound if agent_id not in holders[digest]},
        preparations=preparations.on_agents(conn, None),
    )


def _sessions(conn: Connection) -> list[WaitingSession]:
    rests = _rests(conn)
    query = (
        select(
            kernels.c.session_id,
            kernels.c.id,
            kernels.c.reference,
            kernels.c.root_digest,
            kernels.c.cpu,
            kernels.c.mem,
            kernels.c.gpu,
            kernels.c.next_try_at,
            kernels.c.status_info,
            kernels.c.status_data,
            sessions.c.owner_id,
            sessions.c.scaling_group,
            sessions.c.blocked_since,
            sessions.c.held_since,
        )
        .join(sessions, sessions.c.id == kernels.c.session_id)
        .where(kernels.c.status == KernelStatus.PENDING)
        .order_by(sessions.c.created_at, sessions.c.id, kernels.c.position)
    )
    slots = cache(Slots)  # most kernels ask for one of a few
    found: dict[str, WaitingSession] = {}
    rows: Iterable[Any] = conn.execute(query).all()
    for id_, kernel_id, reference, digest, cpu, mem, gpu, next_try_at, info, data, *of_all in rows:
        session = found.get(id_)
        if session is None:
            owner, group, blocked_since, held_since = of_all
            rest = rests.get(id_, Rest.NONE)
            session = found[id_] = WaitingSession(
                id_, owner, group, blocked_since, [], rest, held_since
            )
        said = Reason(info) if info else None
        session.kernels.append(
            WaitingKernel(
                kernel_id, reference, digest, slots(cpu, mem, gpu), next_try_at, said, data
            )
        )
    return list(found.values())


def _rests(conn: Connection) -> dict[str, Rest]:
    """Of the waiting sessions that have kernels which do not wait."""
    waiting = kernels.alias()
    rows = conn.execute(
        select(kernels.c.session_id, kernels.c.status)
        .join(waiting, waiting.c.session_id == kernels.c.session_id)
        .where(
            waiting.c.status == KernelStatus.PENDING,
            kernels.c.status.in_(AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES),
        )
        .distinct()
    )
    rests: dict[str, Rest] = {}
    for session_id, status in rows:
        if status in WITH_CONTAINER:
            rests[session_id] = Rest.STARTED
        else:
            rests.setdefault(session_id, Rest.BOUND)
    return rests


def _hosts(conn: Connection) -> list[Host]:
    occupied = occupancy.of_agents(conn)
    rows = conn.execute(
        select(
            agents.c.id,
            agents.c.scaling_group,
            agents.c.os,
            agents.c.architecture,
            agents.c.variant,
            agents.c.status,
            agents.c.cordoned,
            agents.c.slots,
        )
        .where(agents.c.status != AgentStatus.RETIRED)
        .order_by(agents.c.id)
    )
    return [
        Host(
            row.id,
            row.scaling_group,
            Platform.parse(row.os, row.architecture, row.variant),
            row.status == AgentStatus.UP,
            row.cordoned,
            Slots.from_json(row.slots),
            occupied.get(row.id, Slots()),
        )
        for row in rows
    ]


def _accounts(conn: Connection) -> dict[str, Account]:
    """Of the users who have something waiting."""
    occupied = occupancy.of_users(conn)
    active = occupancy.active_sessions(conn)
    waiting = select(kernels.c.owner_id).where(kernels.c.status == KernelStatus.PENDING)
    accounts = {}
    for row in conn.execute(select(users).where(users.c.id.in_(waiting))):
        limits = Limits.of(row)
        groups = limits.scaling_groups
        accounts[row.id] = Account(
            limits.slots,
            limits.sessions,
            None if groups is None else frozenset(groups),
            occupied.get(row.id, Slots()),
            active.get(row.id, 0),
        )
    return accounts


def _holders(conn: Connection, digests: Collection[str]) -> dict[str, AbstractSet[str]]:
    holders: dict[str, set[str]] = defaultdict(set)
    for agent_id, digest in conn.execute(
        select(agent_images.c.agent_id, agent_images.c.root_digest).where(
            agent_images.c.root_digest.in_(digests)
        )
    ):
        holders[digest].add(agent_id)
    return {digest: holders[digest] for digest in digests}


def _avoided(conn: Connection, at: float) -> dict[str, dict[str, Avoidance]]:
    avoided: dict[str, dict[str, Avoidance]] = defaultdict(dict)
    for row in conn.execute(select(avoided_images).where(avoided_images.c.until > at)):
        avoided[row.root_digest][row.agent_id] = Avoidance(row.until, row.failure)
    return dict(avoided)


def _bound_images(conn: Connection) -> set[tuple[str, str]]:
    rows = conn.execute(
        select(kernels.c.agent_id, kernels.c.root_digest)
        .where(kernels.c.status.in_(_BRINGING))
        .distinct()
    )
    return {(agent_id, digest) for agent_id, digest in rows}  # rows are not pairs


def _pulls_in_flight(conn: Connection) -> set[tuple[str, str]]:
    return {(place.agent_id, place.pinned.rpartition("@")[2]) for place in attempts.in_flight(conn)}
