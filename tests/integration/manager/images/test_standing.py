"""A preload's items and attempts under any order of answers, events, losses and cancels.

Run against the transactions themselves, since each of them is what a crash may stand between.
"""

import tempfile
from collections.abc import Callable, Collection
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from rig.rows import insert_agent, insert_task
from sqlalchemy import Connection, Engine, create_engine, select, update

from wharfinger.contracts.rpc import PullAnswer, PullOutcome
from wharfinger.contracts.wire import FailureReport, ImageEvidence
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.states import (
    ATTEMPT_TRANSITIONS,
    ITEM_TRANSITIONS,
    AgentStatus,
    AttemptStatus,
    ItemStatus,
    TaskStatus,
)
from wharfinger.manager.fleet import agents
from wharfinger.manager.gate import preparations
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.images.standing import Standing, advance
from wharfinger.manager.pulls import attempts
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.storage import tables

AGENTS = ("a-1", "a-2", "b-1")
REFERENCES = ("h/one:v1", "h/two:v1")
DIGEST = "sha256:" + "a" * 64
LIMITS = Limits(per_agent=1, per_registry=2, total=2)
ENOUGH_ROUNDS = 60
T = TypeVar("T")

classes = st.sampled_from(FailureClass)


def evidence(reference: str, digest: str = DIGEST, architecture: str = "amd64") -> ImageEvidence:
    name = reference.rpartition(":")[0]
    return ImageEvidence(
        image_id="sha256:1",
        tags=(reference,),
        digests=(f"{name}@{digest}",),
        os="linux",
        architecture=architecture,
    )


class Preloading(RuleBasedStateMachine):
    """One preload of two images on three agents."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "database"
        self.engine: Engine = create_engine(f"sqlite:///{path}")
        tables.metadata.create_all(self.engine)
        self.cancelling = False
        # time stands until `time_passes`; of two attempts one is still the newer
        self.clock = pytest.MonkeyPatch()
        ticks = count()
        self.clock.setattr(rows, "now", lambda _: 0.0)
        self.clock.setattr(attempts, "now", lambda _: float(next(ticks)))

    def teardown(self) -> None:
        try:
            self.everything_ends_when_the_world_behaves()
        finally:
            self.clock.undo()
            self.engine.dispose()
            self.folder.cleanup()

    def write(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        with self.engine.begin() as conn:
            return function(conn, *args, **kwargs)

    @initialize()
    def a_preload_begins(self) -> None:
        self.write(_begin)

    # what the manager does

    @rule(checked=st.sets(st.sampled_from(AGENTS)))
    def a_round(self, checked: set[str]) -> None:
        self.advance({item.id for item in self.items() if item.agent_id in checked})

    @rule()
    def somebody_cancels(self) -> None:
        self.cancelling = True

    @rule(data=st.data())
    def an_order_is_sent_and_answered(self, data: st.DataObject) -> None:
        attempt = self.some_attempt(data)
        if attempt and self.write(attempts.note_sending, [attempt.id], by="test"):
            outcome = data.draw(st.sampled_from(PullOutcome))
            self.write(attempts.apply_answer, self.answer(data, attempt, outcome), "i1", by="test")

    @rule(data=st.data())
    def an_order_is_sent_and_not_answered(self, data: st.DataObject) -> None:
        attempt = self.some_attempt(data)
        if attempt:
            self.write(attempts.note_sending, [attempt.id], by="test")

    @rule()
    def time_passes(self) -> None:
        self.write(_let_time_pass)

    # what agents report, in any order, also twice and late

    @rule(data=st.data())
    def the_engine_was_asked(self, data: st.DataObject) -> None:
        attempt = self.some_attempt(data)
        if attempt:
            self.write(attempts.start, attempt.id, by="test")

    @rule(data=st.data(), architecture=st.sampled_from(["amd64", "arm64"]))
    def an_agent_finished(self, data: st.DataObject, architecture: str) -> None:
        attempt = self.some_attempt(data)
        if attempt:
            seen = evidence(attempt.reference, architecture=architecture)
            self.write(attempts.finish, attempt.id, seen, by="test")

    @rule(data=st.data(), failure_class=classes)
    def an_agent_failed(self, data: st.DataObject, failure_class: FailureClass) -> None:
        attempt = self.some_attempt(data)
        if attempt:
            self.write(attempts.fail, attempt.id, Failure(failure_class, "no"), by="test")

    @rule(agent_id=st.sampled_from(AGENTS), begun=st.integers(0, 9), again=st.booleans())
    def an_agent_reports_nothing_in_hand(self, agent_id: str, begun: int, *, again: bool) -> None:
        self.write(attempts.note_missing, agent_id, "i2" if again else "i1", begun, ())

    @rule(agent_id=st.sampled_from(AGENTS), status=st.sampled_from(["UP", "LOST", "RETIRED"]))
    def an_agent_changes(self, agent_id: str, status: str) -> None:
        self.write(_set_agent, agent_id, AgentStatus(status))

    # what must hold after every step

    @invariant()
    def every_end_is_one_and_stays(self) -> None:
        for machine in (ITEM_TRANSITIONS, ATTEMPT_TRANSITIONS):
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
    def an_image_is_closed_exactly_while_its_item_runs(self) -> None:
        running = {item.id for item in self.items() if item.status is ItemStatus.RUNNING}
        assert self.write(preparations.of_task, "t1").keys() == running

    @invariant()
    def an_item_is_done_only_with_evidence(self) -> None:
        for item in self.items():
            if item.status is ItemStatus.DONE:
                newest = self.write(attempts.of_items, [item.id])[item.id]
                assert newest.status is AttemptStatus.PRESENT
                assert newest.evidence is not None
                assert newest.evidence.architecture == "amd64"

    def everything_ends_when_the_world_behaves(self) -> None:
        if not self.items():
            return
        for _ in range(ENOUGH_ROUNDS):
            standing = self.advance({item.id for item in self.items()})
            if not any(item.status in rows.OPEN for item in standing.items):
                break
            for _, attempt in standing.open:
                if self.cancelling:
                    self.write(attempts.abort, attempt.id, by="test")
                elif self.write(attempts.note_sending, [attempt.id], by="test"):
                    self.write(attempts.finish, attempt.id, evidence(attempt.reference), by="test")
            self.time_passes()
        ended = self.items()
        assert not [item for item in ended if item.status in rows.OPEN]
        result = rows.result(ended, "preload")
        assert result.status in {
            TaskStatus.SUCCEEDED,
            TaskStatus.PARTIALLY_SUCCEEDED,
            TaskStatus.FAILED,
            TaskStatus.CANCELLED,
        }
        good = [item for item in ended if item.status in rows.SUCCESSFUL]
        assert (result.status is TaskStatus.SUCCEEDED) == (len(good) == len(ended))

    def advance(self, checked: Collection[str]) -> Standing:
        return self.write(
            advance,
            "t1",
            1,
            cancelling=self.cancelling,
            checked=frozenset(checked),
            limits=LIMITS,
            by="test",
        )

    def items(self) -> list[rows.ItemRow]:
        return self.write(rows.of_task, "t1")

    def some_attempt(self, data: st.DataObject) -> attempts.Attempt | None:
        items = [item.id for item in self.items()]  # by agent and reference: the same every time
        newest = self.write(attempts.of_items, items)
        tried = [newest[item] for item in items if item in newest]
        return data.draw(st.sampled_from(tried)) if tried else None

    def answer(
        self, data: st.DataObject, attempt: attempts.Attempt, outcome: PullOutcome
    ) -> PullAnswer:
        failure = Failure(data.draw(classes), "no")
        return PullAnswer(
            attempt_id=attempt.id,
            outcome=outcome,
            evidence=evidence(attempt.reference) if outcome is PullOutcome.PRESENT else None,
            failure=FailureReport.of(failure) if outcome is PullOutcome.FAILED else None,
        )


def _begin(conn: Connection) -> None:
    for agent_id in AGENTS:
        insert_agent(conn, agent_id)
    insert_task(conn, "t1")
    new = [NewItem(a, r, DIGEST, 10) for a in AGENTS for r in REFERENCES]
    rows.add(conn, "t1", new, by="test")


def _let_time_pass(conn: Connection) -> None:
    conn.execute(update(tables.items).values(next_try_at=0.0))


def _set_agent(conn: Connection, agent_id: str, status: AgentStatus) -> None:
    if agents.one(conn, agent_id).status is AgentStatus.RETIRED:
        return
    conn.execute(update(tables.agents).where(tables.agents.c.id == agent_id).values(status=status))
    if status is not AgentStatus.UP:
        lost = Failure(FailureClass.AGENT_LOST, "gone")
        attempts.fail_open_of(conn, agent_id, lost, by="test")


def _logs(conn: Connection, entity: str) -> dict[str, list[str]]:
    log = tables.transitions
    states: dict[str, list[str]] = {}
    for row in conn.execute(select(log).where(log.c.entity == entity).order_by(log.c.id)):
        states.setdefault(row.entity_id, []).append(row.to)
    return states


# 15 of the profile's 100 examples: a step is a transaction
Preloading.TestCase.settings = settings(
    max_examples=settings().max_examples * 15 // 100, stateful_step_count=30
)
TestPreloading = Preloading.TestCase
