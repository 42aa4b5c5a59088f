"""Binding what was planned: checked once more under lock, since others plan and act as well.

Users' rows are locked first, then agents', then kernels', each by ascending id. Whoever else binds,
admits or takes away what a bound kernel relies on locks the same rows in this order before it
looks: what was checked here then stays true until the commit.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import Connection, or_, select, update

from wharfinger.domain.sessions import TERMINAL
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import KERNEL_TRANSITIONS, AgentStatus, KernelStatus
from wharfinger.manager.access.limits import Limits, locked
from wharfinger.manager.gate import preparations
from wharfinger.manager.scheduler import predicates
from wharfinger.manager.scheduler.decisions import Binding
from wharfinger.manager.scheduler.picture import WaitingKernel
from wharfinger.manager.sessions import occupancy
from wharfinger.manager.storage import transitions
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import agents, avoided_images, kernels, sessions

_NOTHING: Final = Slots()
_NO_LIMITS: Final = Limits()


def bind(conn: Connection, bindings: Sequence[Binding], *, by: str) -> list[str]:
    """Reserve the slots of these sessions, each as a whole or not at all; the ids of the bound.

    What no longer fits is left as it is, for the next round.
    """
    owners = _Owners(conn, {binding.session.owner_id for binding in bindings})
    hosts = _Hosts(conn, {agent_id for binding in bindings for agent_id in binding.agent_ids})
    waiting = _Waiting(conn, {binding.session.id for binding in bindings})
    bound = []
    for binding in bindings:
        if waiting.has(binding) and owners.admits(binding, hosts) and hosts.take(binding):
            owners.charge(binding)
            bound.append(binding)
    if bound:
        _write(conn, bound, by=by)
    return [binding.session.id for binding in bound]


def _write(conn: Connection, bound: Sequence[Binding], *, by: str) -> None:
    transitions.move_all(
        conn,
        kernels,
        KERNEL_TRANSITIONS,
        {
            kernel.id: {"agent_id": agent_id}
            for binding in bound
            for kernel, agent_id in binding.placed
        },
        KernelStatus.PENDING,
        KernelStatus.SCHEDULED,
        reason="placed by the scheduler",
        by=by,
        status_info="",
        status_data=None,
        changed_at=now(conn),
        calls=0,
        next_try_at=None,
    )
    conn.execute(
        update(sessions)
        .where(
            sessions.c.id.in_([binding.session.id for binding in bound]),
            or_(sessions.c.blocked_since.is_not(None), sessions.c.held_since.is_not(None)),
        )
        .values(blocked_since=None, held_since=None)
    )


class _Owners:
    """The users' rows, locked, and what their limits leave. One that is gone has no limits."""

    def __init__(self, conn: Connection, user_ids: Collection[str]) -> None:
        self._limits = locked(conn, user_ids)
        self._occupied = occupancy.of_users(conn, user_ids)
        self._active = occupancy.active_sessions(conn, user_ids)

    def admits(self, binding: Binding, hosts: "_Hosts") -> bool:
        """Whether the limits of its owner allow it."""
        owner_id = binding.session.owner_id
        limits = self._limits.get(owner_id, _NO_LIMITS)
        occupied = self._occupied.get(owner_id, _NOTHING) + binding.session.asked
        number = self._active.get(owner_id, 0) + binding.joins
        return (
            not limits.slots.exceeded_by(occupied)
            and (limits.sessions is None or not binding.joins or number <= limits.sessions)
            and (
                limits.scaling_groups is None or hosts.groups(binding) <= set(limits.scaling_groups)
            )
        )

    def charge(self, binding: Binding) -> None:
        """It is bound."""
        owner_id = binding.session.owner_id
        self._occupied[owner_id] = self._occupied.get(owner_id, _NOTHING) + binding.session.asked
        self._active[owner_id] = self._active.get(owner_id, 0) + binding.joins


class _Hosts:
    """The agents' rows, locked, and what those have free that take sessions."""

    def __init__(self, conn: Connection, agent_ids: Collection[str]) -> None:
        self._rows = {
            row.id: row
            for row in conn.execute(
                select(
                    agents.c.id,
                    agents.c.scaling_group,
                    agents.c.status,
                    agents.c.cordoned,
                    agents.c.slots,
                )
                .where(agents.c.id.in_(agent_ids))
                .order_by(agents.c.id)
                .with_for_update()
            )
        }
        occupied = occupancy.of_agents(conn, agent_ids)
        self._free = {
            row.id: Slots.from_json(row.slots) - occupied.get(row.id, _NOTHING)
            for row in self._rows.values()
            if row.status == AgentStatus.UP and not row.cordoned
        }
        self._taken_out = _TakenOut(conn, agent_ids)

    def groups(self, binding: Binding) -> set[str | None]:
        """The scaling groups of the agents it is to be bound to."""
        rows = (self._rows.get(agent_id) for agent_id in binding.agent_ids)
        return {row.scaling_group if row else None for row in rows}

    def take(self, binding: Binding) -> bool:
        """Take the slots of all its kernels, if every one has its room."""
        free = dict[str, Slots]()
        for kernel, agent_id in binding.placed:
            left = free.get(agent_id, self._free.get(agent_id))
            if left is None or not kernel.slots.fits(left) or self._taken_out.has(kernel, agent_id):
                return False
            free[agent_id] = left - kernel.slots
        self._free.update(free)
        return True


class _TakenOut:
    """Where no kernel of an image may be bound now, under the agents' locks: what
    `predicates.taken_out` tells of a picture."""

    def __init__(self, conn: Connection, agent_ids: Collection[str]) -> None:
        rows = conn.execute(
            select(avoided_images.c.agent_id, avoided_images.c.root_digest).where(
                avoided_images.c.agent_id.in_(agent_ids), avoided_images.c.until > now(conn)
            )
        )
        self._avoided = {(agent_id, digest) for agent_id, digest in rows}  # rows are not pairs
        self._preparations = preparations.on_agents(conn, agent_ids)

    def has(self, kernel: WaitingKernel, agent_id: str) -> bool:
        """Whether this kernel may not be bound to this agent."""
        assert kernel.root_digest is not None, "what is placed is resolved"
        image = predicates.keys(kernel.reference, kernel.root_digest)
        return (agent_id, kernel.root_digest) in self._avoided or (
            self._preparations.against(agent_id, image) is not None
        )


class _Waiting:
    """The kernels' rows of these sessions, locked."""

    def __init__(self, conn: Connection, session_ids: Collection[str]) -> None:
        at = now(conn)
        rows = conn.execute(
            select(
                kernels.c.session_id,
                kernels.c.id,
                kernels.c.status,
                kernels.c.root_digest,
                kernels.c.next_try_at,
            )
            .where(kernels.c.session_id.in_(session_ids))
            .order_by(kernels.c.id)
            .with_for_update()
        ).all()
        self._images: dict[str, dict[str, str | None]] = defaultdict(dict)
        self._spoilt: set[str] = set()
        for session_id, kernel_id, status, digest, next_try_at in rows:
            if status == KernelStatus.PENDING:
                self._images[session_id][kernel_id] = digest
            is_early = next_try_at is not None and next_try_at > at
            if status in TERMINAL or (status == KernelStatus.PENDING and is_early):
                self._spoilt.add(session_id)

    def has(self, binding: Binding) -> bool:
        """Whether exactly the planned kernels of it wait, each due and for the image it was planned
        with, and none has ended."""
        session = binding.session
        planned = {kernel.id: kernel.root_digest for kernel in session.kernels}
        return session.id not in self._spoilt and self._images.get(session.id) == planned
