"""Kernels and their attempts under any order of answers, events, losses and ends.

Run against the transactions themselves, since each of them is what a crash may stand between.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from rig.queues import DIGEST, insert_host, insert_user
from sqlalchemy import Connection, Engine, create_engine, select, true, update

from wharfinger.contracts.rpc import PullAnswer, PullOutcome
from wharfinger.contracts.wire import FailureReport, ImageEvidence
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.domain.sessions import BOUND, FETCHING, TERMINAL, Reason
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import (
    ATTEMPT_TRANSITIONS,
    KERNEL_TRANSITIONS,
    AgentStatus,
    AttemptStatus,
    KernelStatus,
)
from wharfinger.manager.access.principal import Principal, Role
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.pulls import attempts
from wharfinger.manager.pulls.attempts import Attempt
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.sessions import creating, endings, kernels
from wharfinger.manager.sessions.following import follow
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.ordering import Orders, advance, apply_answers
from wharfinger.manager.sessions.requests import KernelRequest, SessionRequest, check
from wharfinger.manager.storage import tables
from wharfinger.registry.images import PlatformImage, ResolvedImage

ADA = Principal("ada", "ada", Role.USER)
AGENTS = ("a-1", "a-2", "b-1")
IMAGE = "h.test/image:v1"
LIMITS = Limits(per_agent=1, per_registry=2, total=2)
ENOUGH_ROUNDS = 60
T = TypeVar("T")

classes = st.sampled_from(FailureClass)
agent_ids = st.sampled_from(AGENTS)


def evidence(architecture: str = "amd64") -> ImageEvidence:
    return ImageEvidence(
        image_id="sha256:1",
        tags=(IMAGE,),
        digests=(f"h.test/image@{DIGEST}",),
        os="linux",
        architecture=architecture,
    )


class Bringing(RuleBasedStateMachine):
    """Sessions of one image on three agents; binding is a coin's."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "database"
        self.engine: Engine = create_engine(f"sqlite:///{path}")
        tables.metadata.create_all(self.engine)

    def teardown(self) -> None:
        try:
            self.everything_settles_when_the_world_behaves()
        finally:
            self.engine.dispose()
            self.folder.cleanup()

    def write(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        with self.engine.begin() as conn:
            return function(conn, *args, **kwargs)

    @initialize()
    def there_are_agents(self) -> None:
        self.write(_begin)

    # what people and the other loops do

    @rule(count=st.integers(1, 3))
    def somebody_creates(self, count: int) -> None:
        request = SessionRequest([KernelRequest(IMAGE, Slots(1, 1))] * count)
        self.write(creating.create, request, check(request), ADA)

    @rule(agent_id=agent_ids)
    def the_scheduler_binds(self, agent_id: str) -> None:
        self.write(_bind, agent_id)

    @rule(data=st.data(), ends_as=st.sampled_from(["CANCELLED", "TERMINATED"]))
    def somebody_ends(self, data: st.DataObject, ends_as: str) -> None:
        sessions = list(kernels.sessions_of(self.kernels()))
        if sessions:
            session_id = data.draw(st.sampled_from(sessions))
            self.write(_end, session_id, KernelStatus(ends_as))

    # what the manager does

    @rule()
    def a_round(self) -> None:
        self.advance()

    @rule()
    def a_round_while_calls_are_under_way(self) -> None:
        self.write(advance, LIMITS, sending_to=AGENTS, stopping_at=AGENTS, by="test")

    @rule()
    def time_passes(self) -> None:
        self.write(_let_time_pass)

    # what agents answer and report, in any order, also twice and late

    @rule(data=st.data(), outcome=st.sampled_from(PullOutcome), failure_class=classes)
    def an_agent_answers(
        self, data: st.DataObject, outcome: PullOutcome, failure_class: FailureClass
    ) -> None:
        attempt = self.some_attempt(data)
        if attempt:
            self.write(
                apply_answers,
                attempt.agent_id,
                [_answer(attempt, outcome, failure_class)],
                "i1",
                by="test",
            )

    @rule(data=st.data(), lost=st.booleans())
    def the_engine_was_asked(self, data: st.DataObject, *, lost: bool) -> None:
        attempt = self.some_attempt(data)
        if attempt:
            self.write(attempts.start, attempt.id, by="test")
            self.heard(attempt, lost=lost)

    @rule(data=st.data(), architecture=st.sampled_from(["amd64", "arm64"]), lost=st.booleans())
    def an_agent_finished(self, data: st.DataObject, architecture: str, *, lost: bool) -> None:
        attempt = self.some_attempt(data)
        if attempt:
            self.write(attempts.finish, attempt.id, evidence(architecture), by="test")
            self.heard(attempt, lost=lost)

    @rule(data=st.data(), failure_class=classes, lost=st.booleans())
    def an_agent_failed(
        self, data: st.DataObject, failure_class: FailureClass, *, lost: bool
    ) -> None:
        attempt = self.some_attempt(data)
        if attempt:
            self.write(attempts.fail, attempt.id, Failure(failure_class, "no"), by="test")
            self.heard(attempt, lost=lost)

    @rule(agent_id=agent_ids, begun=st.integers(0, 9), again=st.booleans())
    def an_agent_reports_nothing_in_hand(self, agent_id: str, begun: int, *, again: bool) -> None:
        self.write(attempts.note_missing, agent_id, "i2" if again else "i1", begun, ())

    @rule(agent_id=agent_ids, status=st.sampled_from(["UP", "LOST"]))
    def an_agent_changes(self, agent_id: str, status: str) -> None:
        self.write(_set_agent, agent_id, AgentStatus(status))

    # what must hold after every step

    @invariant()
    def every_end_is_one_and_stays(self) -> None:
        for machine in (KERNEL_TRANSITIONS, ATTEMPT_TRANSITIONS):
            for entity_id, states in self.write(_logs, machine.name).items():
                ends = [state for state in states if state in set(machine.terminal)]
                assert len(ends) <= 1, (entity_id, states)
                assert not ends or states[-1] == ends[0]

    @invariant()
    def pulls_in_flight_stay_within_the_limits(self) -> None:
        taken = self.write(attempts.in_flight)
        assert len(taken) <= LIMITS.total
        for agent_id in AGENTS:
            assert sum(place.agent_id == agent_id for place in taken) <= LIMITS.per_agent

    @invariant()
    def a_kernel_is_where_its_current_attempt_brought_it(self) -> None:
        for kernel in self.kernels():
            if kernel.status in {*FETCHING, KernelStatus.PREPARED}:
                current = self.attempts()[kernel.attempt_id or ""]
                assert (current.kernel_id, current.agent_id) == (kernel.id, kernel.agent_id)
                if kernel.status is KernelStatus.PULLING:
                    assert current.started
                if kernel.status is KernelStatus.PREPARED:
                    assert current.status is AttemptStatus.PRESENT
                    assert kernel.image_id == "sha256:1"

    @invariant()
    def kernels_end_together(self) -> None:
        for theirs in kernels.sessions_of(self.kernels()).values():
            assert len({kernel.is_open for kernel in theirs}) == 1

    def everything_settles_when_the_world_behaves(self) -> None:
        for agent_id in AGENTS:
            self.write(_set_agent, agent_id, AgentStatus.UP)
        for _ in range(ENOUGH_ROUNDS):
            self.write(_requeue_prepared_nowhere)
            self.write(_bind, "a-1")
            orders = self.advance()
            for unwanted in orders.unwanted.values():
                for attempt in unwanted:
                    self.write(attempts.abort, attempt.id, by="test")
            for attempt in self.attempts().values():
                self.write(attempts.finish, attempt.id, evidence(), by="test")
            self.time_passes()
        self.advance()
        settled = {*TERMINAL, KernelStatus.PREPARED}
        assert all(kernel.status in settled for kernel in self.kernels()), self.kernels()
        assert not self.write(attempts.open_of_kernels)

    def heard(self, attempt: Attempt, *, lost: bool) -> None:
        if not lost:
            self.write(follow, {attempt.id}, by="test")

    def advance(self) -> Orders:
        return self.write(advance, LIMITS, sending_to=(), stopping_at=(), by="test")

    def kernels(self) -> list[Kernel]:
        return self.write(kernels.where, true())

    def attempts(self) -> dict[str, Attempt]:
        return self.write(_all_attempts)

    def some_attempt(self, data: st.DataObject) -> Attempt | None:
        every = list(self.attempts().values())
        return every[data.draw(st.integers(0, len(every) - 1))] if every else None


def _begin(conn: Connection) -> None:
    for agent_id in AGENTS:
        insert_host(conn, agent_id)
    insert_user(conn, "ada")
    variant = PlatformImage(Platform("linux", "amd64"), DIGEST, DIGEST, ())
    resolved.mean(conn, ResolvedImage(Reference.parse(IMAGE), DIGEST, "index", (variant,)))


def _bind(conn: Connection, agent_id: str) -> None:
    for kernel in kernels.where(conn, tables.kernels.c.status == KernelStatus.PENDING):
        if kernel.due:
            kernels.move(
                conn, kernel, KernelStatus.SCHEDULED, reason="bound", by="test", agent_id=agent_id
            )


def _end(conn: Connection, session_id: str, ends_as: KernelStatus) -> None:
    endings.end(conn, session_id, ends_as, reason="asked", by="test", info=Reason.ENDED_BY_USER)


def _let_time_pass(conn: Connection) -> None:
    conn.execute(update(tables.kernels).values(next_try_at=0.0))
    conn.execute(update(tables.avoided_images).values(until=0.0))


def _requeue_prepared_nowhere(conn: Connection) -> None:
    """What the sweep does with kernels whose agent was lost before they waited for an attempt."""
    up = select(tables.agents.c.id).where(tables.agents.c.status == AgentStatus.UP)
    for kernel in kernels.where(
        conn, tables.kernels.c.status.in_(BOUND), tables.kernels.c.agent_id.not_in(up)
    ):
        kernels.back_to_queue(conn, kernel, reason="lost", by="test")


def _set_agent(conn: Connection, agent_id: str, status: AgentStatus) -> None:
    conn.execute(update(tables.agents).where(tables.agents.c.id == agent_id).values(status=status))
    if status is not AgentStatus.UP:
        gone = Failure(FailureClass.AGENT_LOST, "gone")
        attempts.fail_open_of(conn, agent_id, gone, by="test")


def _answer(attempt: Attempt, outcome: PullOutcome, failure_class: FailureClass) -> PullAnswer:
    failed = outcome is PullOutcome.FAILED
    return PullAnswer(
        attempt_id=attempt.id,
        outcome=outcome,
        evidence=evidence() if outcome is PullOutcome.PRESENT else None,
        failure=FailureReport.of(Failure(failure_class, "no")) if failed else None,
    )


def _all_attempts(conn: Connection) -> dict[str, Attempt]:
    table = tables.attempts
    ids = conn.scalars(select(table.c.id).order_by(table.c.created_at, table.c.id)).all()
    found = attempts.of_ids(conn, ids)
    return {attempt_id: found[attempt_id] for attempt_id in ids}


def _logs(conn: Connection, entity: str) -> dict[str, list[str]]:
    log = tables.transitions
    states: dict[str, list[str]] = {}
    for row in conn.execute(select(log).where(log.c.entity == entity).order_by(log.c.id)):
        states.setdefault(row.entity_id, []).append(row.to)
    return states


# 15 of the profile's 100 examples: a step is a transaction
Bringing.TestCase.settings = settings(
    max_examples=settings().max_examples * 15 // 100, stateful_step_count=30
)
TestBringing = Bringing.TestCase
