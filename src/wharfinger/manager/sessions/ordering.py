"""The transaction of check_precond: what a round follows, orders and lets go."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import Connection, select

from wharfinger.contracts.rpc import PullAnswer
from wharfinger.domain.platforms import Platform
from wharfinger.domain.sessions import FETCHING, Reason
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.fleet import agents
from wharfinger.manager.pulls import attempts
from wharfinger.manager.pulls.attempts import Attempt
from wharfinger.manager.pulls.limits import Limits, Room
from wharfinger.manager.sessions import fetching, kernels
from wharfinger.manager.sessions.following import follow
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.registry.images import ResolvedImage


@dataclass(frozen=True, slots=True)
class Batch:
    """Attempts to send to one agent now; each counts as sent once more. `images` are by root
    digest, those that are known."""

    agent_id: str
    platform: Platform
    attempts: Sequence[Attempt]
    images: Mapping[str, ResolvedImage]


@dataclass(frozen=True, slots=True)
class Orders:
    """What a round's transaction left to do; `changed` tells whether it changed any kernel.

    `unwanted` are open attempts, by agent, that no kernel waits for any more.
    """

    changed: bool
    batches: Sequence[Batch]
    unwanted: Mapping[str, Sequence[Attempt]]


def advance(
    conn: Connection,
    limits: Limits,
    *,
    sending_to: Collection[str],
    stopping_at: Collection[str],
    by: str,
) -> Orders:
    """One round: follow what ended, order what was scheduled; what is to be sent and cancelled.

    Nothing is for the agents `sending_to` or `stopping_at`, which such calls are under way to.
    """
    changed = follow(conn, by=by)
    changed |= _order(conn, limits, by=by)
    every = attempts.open_of_kernels(conn)
    if not every:
        return Orders(changed, (), {})
    wanted = _wanted(conn, every)
    unsent = [
        each
        for each in every
        if each.id in wanted and not each.accepted and each.agent_id not in sending_to
    ]
    unwanted = [
        each for each in every if each.id not in wanted and each.agent_id not in stopping_at
    ]
    # what was never accepted is asked for as often as it would have been sent, and no more
    counted = unsent + [each for each in unwanted if not each.accepted]
    worth = set(attempts.note_sending(conn, [each.id for each in counted], by=by))
    if len(worth) < len(counted):
        changed |= follow(conn, by=by)
    given_up = {each.id for each in counted} - worth
    return Orders(
        changed,
        _batches(conn, [each for each in unsent if each.id in worth]),
        _by_agent([each for each in unwanted if each.id not in given_up]),
    )


def apply_answers(
    conn: Connection,
    agent_id: str,
    answers: Sequence[PullAnswer],
    incarnation: str | None,
    *,
    by: str,
) -> bool:
    """What an agent answered, for the attempts and for their kernels; whether any kernel moved."""
    attempts.apply_answers(conn, agent_id, answers, incarnation, by=by)
    return follow(conn, {answer.attempt_id for answer in answers}, by=by)


def _order(conn: Connection, limits: Limits, *, by: str) -> bool:
    """Give scheduled kernels their attempts, as far as there is room; whether anything changed."""
    up = select(tables.agents.c.id).where(tables.agents.c.status == AgentStatus.UP)
    scheduled = kernels.where(
        conn,
        tables.kernels.c.status == KernelStatus.SCHEDULED,
        tables.kernels.c.agent_id.in_(up),
        lock=True,
    )
    if not scheduled:
        return False
    room = limits.room(conn)
    changed = [_order_one(conn, kernel, room, by=by) for kernel in scheduled]
    return any(changed)


def _order_one(conn: Connection, kernel: Kernel, room: Room, *, by: str) -> bool:
    has_room = room.take(fetching.place(kernel))
    if not has_room and not _held(conn, kernel):
        return kernels.explain(conn, kernel, Reason.PULLS_LIMITED, {"agentId": kernel.agent_id})
    return fetching.fetch(
        conn,
        kernel,
        reason="check-and-pull is about to be called",
        by=by,
        look_only=not has_room,
    )


def _held(conn: Connection, kernel: Kernel) -> bool:
    """Whether its agent holds its image, as far as is known."""
    held = tables.agent_images
    found = conn.execute(
        select(held.c.reference).where(
            held.c.agent_id == kernel.agent_id, held.c.root_digest == kernel.root_digest
        )
    )
    return found.first() is not None


def _wanted(conn: Connection, every: Sequence[Attempt]) -> set[str]:
    """Those that a kernel waits for."""
    table = tables.kernels
    return set(
        conn.scalars(
            select(table.c.attempt_id).where(
                table.c.attempt_id.in_([each.id for each in every]), table.c.status.in_(FETCHING)
            )
        )
    )


def _batches(conn: Connection, unsent: Sequence[Attempt]) -> list[Batch]:
    if not unsent:
        return []
    by_agent = _by_agent(unsent)
    platforms = agents.platforms(conn, by_agent.keys())
    images = resolved.find(conn, {each.root_digest for each in unsent})
    return [
        Batch(agent_id, platforms[agent_id], theirs, images)
        for agent_id, theirs in by_agent.items()
        if agent_id in platforms
    ]


def _by_agent(found: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    return {agent_id: list(theirs) for agent_id, theirs in groupby(found, key=lambda a: a.agent_id)}
