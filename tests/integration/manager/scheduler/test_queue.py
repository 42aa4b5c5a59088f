"""Slots, quotas and the order of the queue under any interleaving of rounds, creations and ends.

Run against the transactions themselves: a plan may be carried out late, next to others.
"""

import tempfile
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rig.queues import insert_host, insert_image, insert_session, insert_user
from sqlalchemy import Connection, Engine, make_url, select, update

from wharfinger.domain.sessions import BOUND, OPEN, TERMINAL, Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.scheduler.binding import bind
from wharfinger.manager.scheduler.decisions import Plan
from wharfinger.manager.scheduler.picture import Rest, WaitingSession
from wharfinger.manager.scheduler.planning import plan
from wharfinger.manager.scheduler.reading import read_picture
from wharfinger.manager.scheduler.telling import explain, note_blocked, release
from wharfinger.manager.sessions import endings, kernels, occupancy
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.sqlite import sqlite_engine, transact

T = TypeVar("T")

CAPACITY = {"a": Slots(4, 4), "b": Slots(3, 3), "c": Slots(2, 2, 1)}
USERS = {"ada": (Quota(cpu=4), 3), "bob": (Quota(), 2), "eve": (Quota(), None)}
FORWARD = {
    KernelStatus.SCHEDULED: KernelStatus.PREPARING,
    KernelStatus.PREPARING: KernelStatus.PULLING,
    KernelStatus.PULLING: KernelStatus.PREPARED,
    KernelStatus.PREPARED: KernelStatus.CREATING,
    KernelStatus.CREATING: KernelStatus.RUNNING,
}
ENOUGH_ROUNDS = 60

SHAPES = (Slots(1, 1), Slots(2, 1), Slots(2, 2), Slots(3, 3), Slots(1, 1, 1), Slots(9, 9))
asks = st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2)


class Queueing(RuleBasedStateMachine):
    """Three users, three agents."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        url = make_url(f"sqlite:///{Path(self.folder.name) / 'database'}")
        self.engine: Engine = sqlite_engine(url, begin="BEGIN IMMEDIATE")
        tables.metadata.create_all(self.engine)
        self.plans: list[Plan] = []
        self.numbers = count()

    def teardown(self) -> None:
        try:
            self.everything_has_its_turn_when_the_world_behaves()
        finally:
            self.engine.dispose()
            self.folder.cleanup()

    def write(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return transact(self.engine, lambda conn: function(conn, *args, **kwargs))

    @initialize()
    def a_cluster_stands(self) -> None:
        self.write(_set_up)

    # what people and managers do

    @rule(
        owners=st.lists(st.sampled_from(sorted(USERS)), min_size=2, max_size=5),
        asked=asks,
        resolved=st.booleans(),
    )
    def somebody_creates(self, owners: list[str], asked: list[Slots], *, resolved: bool) -> None:
        unlike: Mapping[str, Any] = {} if resolved else {"root_digest": None}
        kernels = [{"slots": slots, **unlike} for slots in asked]
        for owner in owners:
            self.write(insert_session, f"s{next(self.numbers):03}", *kernels, owner=owner)

    @rule()
    def all_references_are_resolved(self) -> None:
        self.write(_resolve)

    @rule()
    def a_round(self) -> None:
        found, queue = self.write(_look)
        bound = self.carry_out(found)
        self.write(_tell, found)
        self.nobody_was_overtaken(bound, queue)

    @rule(unseen=st.integers(0, 2))
    def a_round_begins(self, unseen: int) -> None:
        self.plans.append(self.write(_look, {unseen})[0])

    @precondition(lambda self: self.plans)
    @rule()
    def the_rounds_that_began_end(self) -> None:
        while self.plans:
            self.carry_out(self.plans.pop())

    @rule()
    def rounds_see_different_sessions(self) -> None:
        """Each began before what the others saw was committed."""
        unseen = ({0, 1}, {1, 2}, {0, 2})
        for found in [self.write(_look, each)[0] for each in unseen]:
            self.carry_out(found)

    @rule(data=st.data())
    def a_session_gives_back_what_it_has(self, data: st.DataObject) -> None:
        found, _ = self.write(_look)
        if found.releases:
            self.write(release, data.draw(st.sampled_from(found.releases)), by="test")

    # what becomes of kernels

    @rule(data=st.data())
    def a_kernel_goes_on(self, data: st.DataObject) -> None:
        kernel = self.some_kernel(data, FORWARD)
        if kernel:
            self.write(kernels.move, kernel, FORWARD[kernel.status], reason="goes on", by="test")

    @rule(data=st.data(), later=st.booleans())
    def a_kernel_goes_back(self, data: st.DataObject, *, later: bool) -> None:
        kernel = self.some_kernel(data, BOUND)
        if kernel:
            when = 1e12 if later else None
            self.write(kernels.back_to_queue, kernel, reason="failed", by="test", next_try_at=when)

    @rule(data=st.data())
    def a_session_ends(self, data: st.DataObject) -> None:
        kernel = self.some_kernel(data, OPEN)
        if kernel:
            self.write(_end, kernel.session_id)

    @rule(
        agent_id=st.sampled_from(sorted(CAPACITY)),
        status=st.sampled_from([AgentStatus.UP, AgentStatus.LOST]),
        cordoned=st.booleans(),
    )
    def an_agent_changes(self, agent_id: str, status: AgentStatus, *, cordoned: bool) -> None:
        self.write(_set_agent, agent_id, status=status, cordoned=cordoned)

    # what must hold

    @invariant()
    def slots_are_never_oversold(self) -> None:
        for agent_id, taken in self.write(occupancy.of_agents).items():
            assert taken.fits(CAPACITY[agent_id]), (agent_id, taken)

    def carry_out(self, found: Plan) -> list[str]:
        """Bind what a plan says: whole sessions, whose owners have what they may have."""
        bound = self.write(bind, found.bindings, by="test")
        occupied, active = self.write(occupancy.of_users), self.write(occupancy.active_sessions)
        for session_id in bound:
            members = self.write(kernels.of_session, session_id)
            assert all(kernel.status is not KernelStatus.PENDING for kernel in members)
            owner = members[0].owner_id
            quota, most = USERS[owner]
            assert not quota.exceeded_by(occupied.get(owner, Slots()))
            assert most is None or active[owner] <= most
        return bound

    def nobody_was_overtaken(self, bound: list[str], queue: list[WaitingSession]) -> None:
        passed: dict[str, str] = {}
        for session in queue:
            if session.id not in bound:
                if self.stands_in_line(session):
                    passed.setdefault(session.owner_id, session.id)
            elif session.rest is Rest.NONE:
                assert session.owner_id not in passed, (session.id, passed)

    def stands_in_line(self, session: WaitingSession) -> bool:
        """Whether it waits for room, or its user's limits, and for nothing else."""
        quota, _ = USERS[session.owner_id]
        if quota.exceeded_by(session.asked):
            return False
        now_said = {
            kernel.status_info
            for kernel in self.write(kernels.of_session, session.id)
            if kernel.status is KernelStatus.PENDING
        }
        waits = {
            Reason.NO_FREE_SLOTS,
            Reason.IN_LINE,
            Reason.USER_QUOTA_EXCEEDED,
            Reason.USER_SESSIONS_EXCEEDED,
        }
        rests = any(each.root_digest is None or each.next_try_at for each in session.kernels)
        return not rests and bool(now_said & waits)

    def everything_has_its_turn_when_the_world_behaves(self) -> None:
        """Whoever can run at all is bound at some time."""
        self.write(_behave)
        for _ in range(ENOUGH_ROUNDS):
            found, queue = self.write(_look)
            bound = self.carry_out(found)
            self.write(_tell, found)
            for each in found.releases:
                self.write(release, each, by="test")
            for session_id in bound:
                self.write(_end, session_id)
            if not bound and not found.releases:
                break
        for session in queue:
            quota, _ = USERS[session.owner_id]
            said = {each.status_info for each in self.write(kernels.of_session, session.id)}
            never = quota.exceeded_by(session.asked) or Reason.NO_SUITABLE_AGENT in said
            assert never, (session, said)

    def some_kernel(self, data: st.DataObject, statuses: Any) -> Kernel | None:
        found = self.write(kernels.where, tables.kernels.c.status.in_(list(statuses)))
        return data.draw(st.sampled_from(found)) if found else None


def _set_up(conn: Connection) -> None:
    insert_image(conn)
    for name, (quota, most) in USERS.items():
        insert_user(conn, name, quota, max_sessions=most)
    for agent_id, capacity in CAPACITY.items():
        insert_host(conn, agent_id, capacity)


def _look(
    conn: Connection, unseen: AbstractSet[int] = frozenset()
) -> tuple[Plan, list[WaitingSession]]:
    picture = read_picture(conn)
    seen = [each for each in picture.sessions if int(each.id[1:]) % 3 not in unseen]
    return plan(replace(picture, sessions=seen), hold_after=0.0), seen


def _tell(conn: Connection, found: Plan) -> None:
    note_blocked(conn, found.blocked, found.unblocked)
    if found.words:
        explain(conn, found.words)


def _resolve(conn: Connection) -> None:
    digest = select(tables.resolved_images.c.root_digest).scalar_subquery()
    conn.execute(update(tables.kernels).values(root_digest=digest))


def _set_agent(conn: Connection, agent_id: str, **values: Any) -> None:
    conn.execute(update(tables.agents).where(tables.agents.c.id == agent_id).values(**values))


def _behave(conn: Connection) -> None:
    _resolve(conn)
    conn.execute(update(tables.agents).values(status=AgentStatus.UP, cordoned=False))
    conn.execute(update(tables.kernels).values(next_try_at=None))
    running = select(tables.kernels.c.session_id).where(
        tables.kernels.c.status.in_([KernelStatus.CREATING, KernelStatus.RUNNING])
    )
    for session_id in conn.scalars(running.distinct()).all():
        _end(conn, session_id)
    for kernel in kernels.where(conn, tables.kernels.c.status == KernelStatus.TERMINATING):
        kernels.move(conn, kernel, KernelStatus.ERROR, reason="ends", by="test")
    whole = [
        session_id
        for session_id, members in kernels.sessions_of(
            kernels.where(conn, tables.kernels.c.status.not_in(TERMINAL))
        ).items()
        if all(kernel.status in BOUND for kernel in members)
    ]
    for session_id in whole:
        _end(conn, session_id)


def _end(conn: Connection, session_id: str) -> None:
    endings.end(
        conn,
        session_id,
        KernelStatus.CANCELLED,
        reason="asked for",
        by="test",
        info=Reason.ENDED_BY_USER,
    )
    for kernel in kernels.of_session(conn, session_id):
        if kernel.status is KernelStatus.TERMINATING and kernel.ends_as:
            kernels.move(conn, kernel, kernel.ends_as, reason="ended", by="test")


# 12 of the profile's 100 examples: a step is a transaction
Queueing.TestCase.settings = settings(
    max_examples=settings().max_examples * 12 // 100, stateful_step_count=30
)
TestQueueing = Queueing.TestCase
