"""The sweep: no kernel waits for an agent that is away, or for an end that cannot come.

Which loop moves a kernel on, from each state that is not an end:

* PENDING: resolve, then schedule
* SCHEDULED, PREPARING, PULLING: check_precond; the sweep, when the agent is away
* PREPARED: start_containers, once all of its session are; the sweep, when the agent is away
* CREATING: start_containers and the agent's reports; the sweep, when the agent is away for too
  long, or no container came about in that time
* RUNNING: the agent's reports; the sweep, when the agent is away for too long
* TERMINATING: terminate; the sweep, when no end was confirmed in that time
"""

from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, func, or_, select

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.sessions import BOUND, WITH_CONTAINER, Reason
from wharfinger.domain.states import AGENT_TRANSITIONS, AgentStatus, KernelStatus
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions import covering, ended, endings, kernels, leftovers, observing
from wharfinger.manager.sessions.channels import ring
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.moments import moment
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage

LOST_GRACE: Final = 600.0
"""Seconds that kernels with a container wait for a lost agent."""


class Sweep:
    """The loop that puts right what no event will. Start and stop it by its own `start` and
    `stop`."""

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        *,
        by: str,
        lost_grace: float = LOST_GRACE,
        period: float = 2.0,
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._by = by
        self._grace = lost_grace
        self.loop = Loop("sweep", self.run_once, period)

    async def start(self) -> None:
        """Begin."""
        self.loop.start()

    async def stop(self) -> None:
        """Finish what runs."""
        await self.loop.stop()

    async def run_once(self) -> bool:
        """Sweep once; whether anything changed."""
        if not await self._storage.read(_anything, self._grace):
            return False
        changed = await self._storage.write(sweep, self._grace, by=self._by)
        if changed:
            await ring(self._bus)
        return changed


class _Agent(NamedTuple):
    """How a kernel's agent stands. `until` is when its kernels are given up."""

    id: str
    status: AgentStatus | None
    heard_at: float
    until: float


def sweep(conn: Connection, grace: float, *, by: str) -> bool:
    """Put right what waits in vain; whether anything changed."""
    at = now(conn)
    changed = False
    agents = {}
    for kernel_id in _odd(conn, grace):
        # read one by one: what was done for one may have moved others of its session
        for kernel in kernels.where(conn, tables.kernels.c.id == kernel_id, lock=True):
            agent_id = kernel.agent_id
            if agent_id is None or not kernel.is_open:
                continue
            if agent_id not in agents:
                agents[agent_id] = _agent(conn, agent_id, grace)
            changed |= _put_right(conn, kernel, agents[agent_id], at, grace, by=by)
    return changed


def _anything(conn: Connection, grace: float) -> bool:
    return bool(_odd(conn, grace))


def _odd(conn: Connection, grace: float) -> list[str]:
    """Kernels whose agent is not UP, or was not while they say so, and those that take too long."""
    table, agents = tables.kernels, tables.agents
    takes_long = table.c.status.in_((KernelStatus.CREATING, KernelStatus.TERMINATING)) & (
        table.c.changed_at < now(conn) - grace
    )
    found = conn.scalars(
        select(table.c.id)
        .outerjoin(agents, agents.c.id == table.c.agent_id)
        .where(
            table.c.status.in_((*BOUND, *WITH_CONTAINER)),
            or_(
                agents.c.id.is_(None),
                agents.c.status != AgentStatus.UP,
                table.c.status_info == Reason.AGENT_LOST,
                takes_long,
            ),
        )
        .order_by(table.c.session_id, table.c.position)
    )
    return list(found)


def _agent(conn: Connection, agent_id: str, grace: float) -> _Agent:
    """One agent. The grace begins when it was marked LOST, since a manager that could not listen
    heard nobody; one that was removed has none."""
    agents, log = tables.agents, tables.transitions
    row = conn.execute(select(agents).where(agents.c.id == agent_id)).one_or_none()
    if row is None:
        return _Agent(agent_id, None, 0.0, 0.0)
    if row.status == AgentStatus.RETIRED:
        return _Agent(agent_id, AgentStatus.RETIRED, row.heard_at, 0.0)
    lost_at = conn.scalar(
        select(func.max(log.c.at)).where(
            log.c.entity == AGENT_TRANSITIONS.name,
            log.c.entity_id == agent_id,
            log.c.to == AgentStatus.LOST,
        )
    )
    since = max(row.heard_at, lost_at or 0.0)
    return _Agent(agent_id, AgentStatus(row.status), row.heard_at, since + grace)


def _put_right(
    conn: Connection, kernel: Kernel, agent: _Agent, at: float, grace: float, *, by: str
) -> bool:
    up = agent.status is AgentStatus.UP
    if kernel.status in BOUND:
        return not up and _send_back(conn, kernel, agent, by=by)
    if not up and at >= agent.until:
        return _give_up(conn, kernel, agent, by=by)
    if kernel.status is not KernelStatus.RUNNING and at - kernel.changed_at > grace:
        return _takes_too_long(conn, kernel, agent, grace, by=by)
    if up:
        return kernel.status_info is Reason.AGENT_LOST and covering.uncover(conn, kernel)
    if agent.status is AgentStatus.LOST:
        return covering.cover(conn, kernel, Reason.AGENT_LOST, _lost(agent))
    return False


def _send_back(conn: Connection, kernel: Kernel, agent: _Agent, *, by: str) -> bool:
    return kernels.back_to_queue(
        conn,
        kernel,
        reason=f"agent {agent.id} is away",
        by=by,
        info=Reason.AGENT_LOST,
        data={"agentId": agent.id},
    )


def _give_up(conn: Connection, kernel: Kernel, agent: _Agent, *, by: str) -> bool:
    """Whatever became of the container: should the agent come back, it is left over there."""
    removed = agent.status in {None, AgentStatus.RETIRED}
    why = "was removed" if removed else "did not come back in time: look at its process and network"
    if kernel.status is KernelStatus.TERMINATING:
        return ended.end_without_word(conn, kernel, f"agent {agent.id} {why}", by=by)
    failure = Failure(FailureClass.AGENT_LOST, f"agent {agent.id} {why}")
    return observing.broke_off(conn, kernel, failure, by=by, info=Reason.AGENT_LOST)


def _takes_too_long(
    conn: Connection, kernel: Kernel, agent: _Agent, grace: float, *, by: str
) -> bool:
    """The agent may be there, but its engine does not get done."""
    if kernel.status is KernelStatus.CREATING:
        stuck = Failure(
            FailureClass.ENGINE_ERROR,
            f"agent {agent.id} made no container within {grace:g} s: look at its engine",
        )
        return endings.fail(conn, kernel, stuck, by=by)
    why = f"agent {agent.id} confirmed no end within {grace:g} s"
    done = ended.end_without_word(conn, kernel, why, by=by)
    if done and agent.status is not None:
        leftovers.note(conn, agent.id, kernel.id, kernel.container_id or "", due_in=0.0)
    return done


def _lost(agent: _Agent) -> dict[str, Any]:
    return {
        "agentId": agent.id,
        "since": moment(agent.heard_at),
        "until": moment(agent.until),
    }
