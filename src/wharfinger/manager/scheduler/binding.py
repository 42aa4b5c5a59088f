"""Binding what was planned: checked once more under lock, since others plan and act as well.

Users' rows are locked first, then agents', then kernels', each by ascending id. Whoever else binds,
admits or takes away what a bound kernel relies on locks the same rows in this order before it
looks: what was checked here then stays true until the commit.
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, select, update

from wharfinger.domain.sessions import TERMINAL
from wharfinger.domain.slots import Quota, Slots
from wharfinger.domain.states import KERNEL_TRANSITIONS, AgentStatus, KernelStatus
from wharfinger.manager.scheduler import occupancy
from wharfinger.manager.scheduler.planning import Binding, PlacedKernel
from wharfinger.manager.storage import transitions
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import agents, avoided_images, kernels, sessions, users


def bind(conn: Connection, bindings: Sequence[Binding], *, by: str) -> list[str]:
    """Reserve the slots of these sessions, each as a whole or not at all; the ids of the bound.

    What no longer fits is left as it is, for the next round.
    """
    owners = _Owners(conn, {binding.owner_id for binding in bindings})
    hosts = _Hosts(conn, {kernel.agent_id for binding in bindings for kernel in binding.kernels})
    waiting = _Waiting(conn, {binding.session_id for binding in bindings})
    bound = []
    for binding in bindings:
        if waiting.has(binding) and owners.admit(binding, hosts) and hosts.take(binding):
            owners.charge(binding)
            bound.append(binding)
    if bound:
        _write(conn, bound, by=by)
    return [binding.session_id for binding in bound]


def _write(conn: Connection, bound: Sequence[Binding], *, by: str) -> None:
    at = now(conn)
    said = {
        "status_info": "",
        "status_data": None,
        "changed_at": at,
        "calls": 0,
        "next_try_at": None,
    }
    transitions.move_all(
        conn,
        kernels,
        KERNEL_TRANSITIONS,
        {
            kernel.id: {"agent_id": kernel.agent_id, **said}
            for binding in bound
            for kernel in binding.kernels
        },
        KernelStatus.PENDING,
        KernelStatus.SCHEDULED,
        reason="placed by the scheduler",
        by=by,
    )
    conn.execute(
        update(sessions)
        .where(
            sessions.c.id.in_([binding.session_id for binding in bound]),
            sessions.c.blocked_since.is_not(None),
        )
        .values(blocked_since=None)
    )


class _Owners:
    """The users' rows, locked, and what their limits leave. One that is gone has no limits."""

    def __init__(self, conn: Connection, user_ids: Collection[str]) -> None:
        self._rows = {
            row.id: row
            for row in conn.execute(
                select(users).where(users.c.id.in_(user_ids)).order_by(users.c.id).with_for_update()
            )
        }
        self._occupied = occupancy.of_users(conn, user_ids)
        self._active = occupancy.active_sessions(conn, user_ids)

    def admit(self, binding: Binding, hosts: "_Hosts") -> bool:
        """Whether the limits of its owner allow it."""
        row = self._rows.get(binding.owner_id)
        if row is None:
            return True
        groups = {hosts.scaling_group(kernel) for kernel in binding.kernels}
        return (
            not Quota(row.max_cpu, row.max_mem, row.max_gpu).exceeded_by(self._with(binding))
            and (row.max_sessions is None or self._number(binding) <= row.max_sessions)
            and (row.scaling_groups is None or groups <= set(row.scaling_groups))
        )

    def charge(self, binding: Binding) -> None:
        """It is bound."""
        self._occupied[binding.owner_id] = self._with(binding)
        self._active[binding.owner_id] = self._number(binding)

    def _with(self, binding: Binding) -> Slots:
        occupied = self._occupied.get(binding.owner_id, Slots())
        return occupied + Slots.total(kernel.slots for kernel in binding.kernels)

    def _number(self, binding: Binding) -> int:
        return self._active.get(binding.owner_id, 0) + binding.joins


class _Hosts:
    """The agents' rows, locked, and what they have free for whom."""

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
            row.id: Slots.from_json(row.slots) - occupied.get(row.id, Slots())
            for row in self._rows.values()
        }
        self._taken_out = _taken_out(conn, agent_ids)

    def scaling_group(self, kernel: PlacedKernel) -> str | None:
        """Of the agent it is to be bound to."""
        row = self._rows.get(kernel.agent_id)
        return row.scaling_group if row else None

    def take(self, binding: Binding) -> bool:
        """Take the slots of all its kernels, if every one has its room."""
        free = dict[str, Slots]()
        for kernel in binding.kernels:
            left = free.get(kernel.agent_id, self._free.get(kernel.agent_id))
            if left is None or not self._takes(kernel) or not kernel.slots.fits(left):
                return False
            free[kernel.agent_id] = left - kernel.slots
        self._free.update(free)
        return True

    def _takes(self, kernel: PlacedKernel) -> bool:
        row = self._rows[kernel.agent_id]
        is_open = row.status == AgentStatus.UP and not row.cordoned
        return is_open and (kernel.agent_id, kernel.root_digest) not in self._taken_out


def _taken_out(conn: Connection, agent_ids: Collection[str]) -> set[tuple[str, str]]:
    """The (agent, root digest) no kernel may be bound to now, under the agents' locks: what
    `predicates.taken_out` tells of a picture."""
    rows = conn.execute(
        select(avoided_images.c.agent_id, avoided_images.c.root_digest).where(
            avoided_images.c.agent_id.in_(agent_ids), avoided_images.c.until > now(conn)
        )
    )
    return {(agent_id, digest) for agent_id, digest in rows}  # rows are not pairs


class _Waiting:
    """The kernels' rows of these sessions, locked."""

    def __init__(self, conn: Connection, session_ids: Collection[str]) -> None:
        self._at = now(conn)
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
        by_session = sorted(rows, key=lambda row: row.session_id)
        self._rows = {
            session_id: list(group)
            for session_id, group in groupby(by_session, key=lambda row: row.session_id)
        }

    def has(self, binding: Binding) -> bool:
        """Whether exactly the planned kernels of it wait, for the image they were planned with,
        and no other has ended."""
        rows = self._rows.get(binding.session_id, [])
        waiting = {row.id: row.root_digest for row in rows if self._may_go(row)}
        left = [row for row in rows if row.id not in waiting]
        return waiting == {kernel.id: kernel.root_digest for kernel in binding.kernels} and not any(
            row.status == KernelStatus.PENDING or row.status in TERMINAL for row in left
        )

    def _may_go(self, row: Row[*tuple[Any, ...]]) -> bool:
        is_due = row.next_try_at is None or row.next_try_at <= self._at
        return row.status == KernelStatus.PENDING and is_due
