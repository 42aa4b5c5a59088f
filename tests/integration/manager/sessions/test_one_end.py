"""Sessions from prepared to their ends, whatever reports, answers, losses and cancels come when.

Run against the transactions themselves, beside two hosts in memory: answers may be applied late,
twice or never, and reports likewise.
"""

import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rig.host_in_memory import STUCK, HostInMemory
from rig.queues import insert_host, insert_session, insert_user
from sqlalchemy import Connection, Engine, make_url, select, update

from wharfinger.contracts.ingest import Report
from wharfinger.contracts.rpc import CreateAnswer, EndAnswer, EndOrder
from wharfinger.domain.sessions import OPEN, TERMINAL, Reason
from wharfinger.domain.states import KERNEL_TRANSITIONS, AgentStatus, KernelStatus
from wharfinger.manager.fleet import agents
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.sessions import admission, created, ended, endings, kernels
from wharfinger.manager.sessions.containers import read_containers
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.sweep import sweep
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.sqlite import sqlite_engine, transact

T = TypeVar("T")

AGENTS = ("a-1", "a-2")
GRACE = 600.0
ENOUGH_ROUNDS = 40
agent_ids = st.sampled_from(AGENTS)
places = st.lists(agent_ids, min_size=1, max_size=3)


class Sessions(RuleBasedStateMachine):
    """Two agents that lose answers, reports and containers."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        url = make_url(f"sqlite:///{Path(self.folder.name) / 'database'}")
        self.engine: Engine = sqlite_engine(url, begin="BEGIN IMMEDIATE")
        tables.metadata.create_all(self.engine)
        self.hosts = {agent_id: HostInMemory() for agent_id in AGENTS}
        self.incarnations = dict.fromkeys(AGENTS, 1)
        self.reports: dict[str, list[Report]] = {agent_id: [] for agent_id in AGENTS}
        self.created: list[tuple[str, int, Sequence[str], list[CreateAnswer]]] = []
        self.ended: list[tuple[str, list[EndAnswer]]] = []
        self.numbers = count()

    def teardown(self) -> None:
        try:
            self.everything_ends_when_the_world_behaves()
        finally:
            self.engine.dispose()
            self.folder.cleanup()

    def write(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return transact(self.engine, lambda conn: function(conn, *args, **kwargs))

    @initialize(places=st.lists(places, min_size=1, max_size=3))
    def sessions_run(self, places: list[list[str]]) -> None:
        self.write(_set_up)
        for each in places:
            self.a_session_is_prepared(each)
        for agent_id in AGENTS:
            self.an_agent_is_asked_for_containers(agent_id, "at once")

    # what people and managers do

    @rule(places=places)
    def a_session_is_prepared(self, places: list[str]) -> None:
        kernels = [_bound_to(agent_id) for agent_id in places]
        self.write(insert_session, f"s{next(self.numbers):03}", *kernels)

    @rule(data=st.data())
    def somebody_ends_a_session(self, data: st.DataObject) -> None:
        kernel = self.some_kernel(data, OPEN)
        if kernel is not None:
            ends_as = data.draw(st.sampled_from((KernelStatus.TERMINATED, KernelStatus.CANCELLED)))
            info = Reason.ENDED_BY_USER
            session_id = kernel.session_id
            self.write(endings.end, session_id, ends_as, reason="asked for", by="test", info=info)

    @rule(agent_id=agent_ids)
    def what_went_back_is_prepared_again(self, agent_id: str) -> None:
        for kernel in self.write(kernels.where):
            if kernel.status in {KernelStatus.PENDING, KernelStatus.PREPARING}:
                self.write(_prepare, kernel.id, kernel.agent_id or agent_id)

    # calls: carried out now; their answers are applied later, twice or never

    @rule(agent_id=agent_ids, answered=st.sampled_from(("at once", "later", "never")))
    def an_agent_is_asked_for_containers(self, agent_id: str, answered: str) -> None:
        self.write(_admit)
        orders = self.write(created.orders).get(agent_id, [])
        asked = [order.kernel_id for order in orders]
        answers = [self.hosts[agent_id].create(order) for order in orders]
        match answered:
            case "at once":
                self.write(created.apply_answers, agent_id, asked, answers, Limits(), by="test")
            case "later":
                incarnation = self.incarnations[agent_id]
                self.created.append((agent_id, incarnation, asked, answers))
            case _:
                self.write(created.note_unanswered, agent_id, asked, by="test")

    @precondition(lambda self: self.created)
    @rule(data=st.data(), again=st.booleans())
    def its_answer_comes(self, data: st.DataObject, *, again: bool) -> None:
        answer = data.draw(st.sampled_from(self.created))
        if not again:
            self.created.remove(answer)
        agent_id, incarnation, asked, answers = answer
        if incarnation == self.incarnations[agent_id]:
            self.write(created.apply_answers, agent_id, asked, answers, Limits(), by="test")

    @rule(agent_id=agent_ids, answered=st.sampled_from(("at once", "later", "never")))
    def an_agent_is_asked_to_end_containers(self, agent_id: str, answered: str) -> None:
        answers = [
            self.hosts[agent_id].end(EndOrder(kernel_id=each.kernel_id, want_log=each.want_log))
            for each in self.write(ended.to_end)
            if each.agent_id == agent_id
        ]
        match answered:
            case "at once":
                self.end(agent_id, answers, dies=False)
            case "later":
                self.ended.append((agent_id, answers))

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), again=st.booleans(), dies=st.booleans())
    def the_end_is_confirmed(self, data: st.DataObject, *, again: bool, dies: bool) -> None:
        answer = data.draw(st.sampled_from(self.ended))
        if not again:
            self.ended.remove(answer)
        self.end(*answer, dies=dies)

    def end(self, agent_id: str, answers: Sequence[EndAnswer], *, dies: bool) -> None:
        """The containers are removed as well, unless the manager dies before."""
        removable = self.write(ended.apply_ends, agent_id, answers, by="test")
        if not dies:
            removed = [self.hosts[agent_id].remove(kernel_id) for kernel_id in removable]
            self.write(ended.apply_removals, agent_id, removed)

    # what becomes of hosts

    @rule(data=st.data(), code=st.sampled_from((0, 3)), told=st.booleans())
    def a_container_ends(self, data: st.DataObject, code: int, *, told: bool) -> None:
        found = self.some_container(data)
        if found is not None and not self.hosts[found[0]].containers[found[1]].ended:
            self.hosts[found[0]].exit(found[1], code)
            if told:
                self.all_agents_report()

    @rule(data=st.data())
    def a_container_vanishes(self, data: st.DataObject) -> None:
        found = self.some_container(data)
        if found is not None:
            del self.hosts[found[0]].containers[found[1]]

    @rule(agent_id=agent_ids)
    def a_container_nobody_knows_appears(self, agent_id: str) -> None:
        self.hosts[agent_id].run(f"nobody{next(self.numbers)}")

    @rule(agent_id=agent_ids, way=st.sampled_from(("image gone", "refuses", "stuck", "keeps")))
    def an_engine_misbehaves(self, agent_id: str, way: str) -> None:
        """At whatever it has or is to make, or no longer."""
        host = self.hosts[agent_id]
        ids = {kernel.id for kernel in self.write(kernels.where) if kernel.is_open}
        match way:
            case "image gone":
                host.image_gone = set() if host.image_gone else ids
            case "refuses":
                host.refuses = {} if host.refuses else dict.fromkeys(ids, STUCK)
            case "stuck":
                host.cannot_stop = set() if host.cannot_stop else ids
            case _:
                host.cannot_remove = set() if host.cannot_remove else ids

    @rule(agent_id=agent_ids, blind=st.booleans())
    def an_agent_begins_a_report(self, agent_id: str, *, blind: bool) -> None:
        report = self.hosts[agent_id].report(f"i{self.incarnations[agent_id]}")
        if blind:
            report = report.model_copy(update={"containers": None})
        self.reports[agent_id].append(report)

    @rule(agent_id=agent_ids, data=st.data(), again=st.booleans())
    def a_report_arrives(self, agent_id: str, data: st.DataObject, *, again: bool) -> None:
        if self.reports[agent_id]:
            report = data.draw(st.sampled_from(self.reports[agent_id]))
            if not again:
                self.reports[agent_id].remove(report)
            self.write(_take_in, agent_id, report)

    @rule()
    def all_agents_report(self) -> None:
        for agent_id, host in self.hosts.items():
            report = host.report(f"i{self.incarnations[agent_id]}")
            self.write(_take_in, agent_id, report)

    @rule(agent_id=agent_ids)
    def an_agent_restarts(self, agent_id: str) -> None:
        self.incarnations[agent_id] += 1
        self.hosts[agent_id].begun = 0
        self.hosts[agent_id].told_to_end.clear()
        incarnation = f"i{self.incarnations[agent_id]}"
        self.write(_come_back, agent_id, incarnation)

    @rule(agent_id=agent_ids)
    def an_agent_is_lost(self, agent_id: str) -> None:
        self.write(_lose, agent_id)

    @rule(seconds=st.sampled_from((0.0, 10.0, GRACE + 1)))
    def time_passes_and_the_sweep_comes(self, seconds: float) -> None:
        self.write(_age, seconds, agents_too=seconds > GRACE)
        self.write(sweep, GRACE, by="test")

    # what always holds

    @invariant()
    def only_legal_moves_and_one_end(self) -> None:
        log = tables.transitions
        rows = self.write(
            lambda conn: conn.execute(
                select(log).where(log.c.entity == KERNEL_TRANSITIONS.name).order_by(log.c.id)
            ).all()
        )
        ends: dict[str, int] = {}
        for row in rows:
            mapping = row._mapping
            source, target = mapping["from"], KernelStatus(mapping["to"])
            if source is not None:
                assert KERNEL_TRANSITIONS.allows(KernelStatus(source), target)
            ends[row.entity_id] = ends.get(row.entity_id, 0) + (target in TERMINAL)
        assert all(times <= 1 for times in ends.values())

    @invariant()
    def kernels_of_a_session_end_together(self) -> None:
        """When the main one ends, or any ends badly, none of the others goes on."""
        ending = (*TERMINAL, KernelStatus.TERMINATING)
        for found in self.sessions():
            if any(_ends_the_session(kernel) for kernel in found):
                assert all(kernel.status in ending for kernel in found)

    @invariant()
    def a_session_has_ended_with_its_last_kernel(self) -> None:
        over = {
            row.id: row.ended_at is not None
            for row in self.write(lambda conn: conn.execute(select(tables.sessions)).all())
        }
        for found in self.sessions():
            assert over[found[0].session_id] is not any(kernel.is_open for kernel in found)

    @invariant()
    def no_slot_is_freed_under_a_process_but_by_the_grace(self) -> None:
        """A running container has a kernel that holds its slots; or it was given up for lost."""
        for kernel in self.write(kernels.where):
            agent_id = kernel.agent_id
            if kernel.status in TERMINAL and agent_id is not None:
                container = self.hosts[agent_id].containers.get(kernel.id)
                if container is not None and not container.ended:
                    assert self.was_given_up(kernel), kernel

    def was_given_up(self, kernel: Kernel) -> bool:
        log = tables.transitions
        reason = self.write(
            lambda conn: conn.scalars(
                select(log.c.reason).where(log.c.entity_id == kernel.id, log.c.to.in_(TERMINAL))
            ).one()
        )
        return "agent" in reason or "no longer on" in reason

    # the end of the story

    def everything_ends_when_the_world_behaves(self) -> None:
        for host in self.hosts.values():
            for trouble in (host.image_gone, host.cannot_stop, host.cannot_remove):
                trouble.clear()
            host.refuses.clear()
        for _ in range(ENOUGH_ROUNDS):
            self.write(_end_all)
            self.write(_age, GRACE + 1, agents_too=False)
            self.all_agents_report()
            self.write(_rush)
            for agent_id in AGENTS:
                self.an_agent_is_asked_to_end_containers(agent_id, "at once")
            if self.is_clean():
                return
        raise AssertionError("something is left")

    def is_clean(self) -> bool:
        left = self.write(lambda conn: conn.execute(select(tables.leftovers)).all())
        open_kernels = [kernel for kernel in self.write(kernels.where) if kernel.is_open]
        containers = [host.containers for host in self.hosts.values() if host.containers]
        return not (left or open_kernels or containers)

    # helpers

    def sessions(self) -> list[list[Kernel]]:
        return list(kernels.sessions_of(self.write(kernels.where)).values())

    def some_kernel(self, data: st.DataObject, statuses: Sequence[KernelStatus]) -> Kernel | None:
        found = [kernel for kernel in self.write(kernels.where) if kernel.status in statuses]
        return data.draw(st.sampled_from(found)) if found else None

    def some_container(self, data: st.DataObject) -> tuple[str, str] | None:
        found = [(a, k) for a, host in self.hosts.items() for k in host.containers]
        return data.draw(st.sampled_from(found)) if found else None


def _ends_the_session(kernel: Kernel) -> bool:
    bad = {KernelStatus.ERROR, KernelStatus.CANCELLED}
    if kernel.status in bad or kernel.ends_as in bad:
        return True
    is_ending = kernel.status in {KernelStatus.TERMINATING, KernelStatus.TERMINATED}
    return is_ending and (kernel.position == 0 or kernel.exit_code not in {None, 0})


def _set_up(conn: Connection) -> None:
    insert_user(conn, "ada")
    for agent_id in AGENTS:
        insert_host(conn, agent_id, heard_at=now(conn))


def _bound_to(agent_id: str) -> dict[str, Any]:
    return {"status": KernelStatus.PREPARED, "agent_id": agent_id, "image_id": "sha256:1"}


def _admit(conn: Connection) -> None:
    admission.admit(conn, admission.owners_ready(conn), by="test")


def _prepare(conn: Connection, kernel_id: str, agent_id: str) -> None:
    """What the scheduler and check_precond do."""
    path = {
        KernelStatus.PENDING: KernelStatus.SCHEDULED,
        KernelStatus.SCHEDULED: KernelStatus.PREPARING,
        KernelStatus.PREPARING: KernelStatus.PREPARED,
    }
    while True:
        [kernel] = kernels.where(conn, tables.kernels.c.id == kernel_id, lock=True)
        if kernel.status not in path:
            return
        image_id = "sha256:1"
        kernels.move(
            conn,
            kernel,
            path[kernel.status],
            reason="goes on",
            by="test",
            agent_id=agent_id,
            image_id=image_id,
        )


def _take_in(conn: Connection, agent_id: str, report: Report) -> None:
    """As the fleet does."""
    table = tables.agents
    row = conn.execute(select(table).where(table.c.id == agent_id)).one()
    if row.incarnation != report.incarnation:
        return
    begun = max(row.reports_begun, report.begun)
    values: dict[str, Any] = {"heard_at": now(conn), "reports_begun": begun}
    if report.containers is not None:
        values["status"] = AgentStatus.UP
    conn.execute(update(table).where(table.c.id == agent_id).values(values))
    read_containers(conn, agent_id, report)


def _come_back(conn: Connection, agent_id: str, incarnation: str) -> None:
    values = {"incarnation": incarnation, "reports_begun": 0, "heard_at": now(conn)}
    table = tables.agents
    conn.execute(update(table).where(table.c.id == agent_id).values(values))


def _lose(conn: Connection, agent_id: str) -> None:
    table = tables.agents
    conn.execute(update(table).where(table.c.id == agent_id).values(heard_at=now(conn) - 20))
    agents.lose_silent(conn, 15, by="test")


def _age(conn: Connection, seconds: float, *, agents_too: bool = True) -> None:
    columns = [
        tables.transitions.c.at,
        tables.kernels.c.changed_at,
        tables.kernels.c.next_try_at,
        tables.leftovers.c.next_try_at,
    ]
    if agents_too:
        columns.append(tables.agents.c.heard_at)
    for column in columns:
        conn.execute(update(column.table).values({column.name: column - seconds}))


def _rush(conn: Connection) -> None:
    conn.execute(update(tables.leftovers).values(next_try_at=0.0))
    conn.execute(update(tables.kernels).values(next_try_at=None))


def _end_all(conn: Connection) -> None:
    for session_id in conn.scalars(select(tables.sessions.c.id)).all():
        info = Reason.ENDED_BY_USER
        cancelled = KernelStatus.CANCELLED
        endings.end(conn, session_id, cancelled, reason="asked for", by="test", info=info)


TestSessions = Sessions.TestCase
TestSessions.settings = settings(
    max_examples=settings().max_examples * 25 // 100, stateful_step_count=40
)
