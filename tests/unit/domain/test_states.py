from enum import StrEnum

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from wharfinger.domain.errors import IllegalTransition
from wharfinger.domain.states import (
    AGENT_TRANSITIONS,
    ALL_TRANSITIONS,
    ATTEMPT_TRANSITIONS,
    ITEM_TRANSITIONS,
    TASK_TRANSITIONS,
    AgentStatus,
    AttemptStatus,
    ItemStatus,
    TaskStatus,
    TransitionTable,
)

machines = pytest.mark.parametrize("machine", ALL_TRANSITIONS, ids=lambda machine: machine.name)


@machines
def test_every_state_is_reached_from_the_initial_one(machine: TransitionTable[StrEnum]) -> None:
    reached = {machine.initial}
    while more := {t for s in reached for t in machine.edges.get(s, {})} - reached:
        reached |= more
    assert reached == set(machine.states)


@machines
def test_every_state_leads_to_an_end(machine: TransitionTable[StrEnum]) -> None:
    leads = set(machine.terminal)
    assert leads
    while more := {s for s in machine.states if leads & set(machine.edges.get(s, {}))} - leads:
        leads |= more
    assert leads == set(machine.states)


@machines
def test_nothing_follows_an_end(machine: TransitionTable[StrEnum]) -> None:
    for end in machine.terminal:
        for state in machine.states:
            with pytest.raises(IllegalTransition, match=machine.name):
                machine.check(end, state)


def test_the_ends_are_the_ones_the_interfaces_name() -> None:
    assert TASK_TRANSITIONS.terminal == {
        TaskStatus.SUCCEEDED,
        TaskStatus.PARTIALLY_SUCCEEDED,
        TaskStatus.FAILED,
        TaskStatus.CANCELLED,
    }
    assert ITEM_TRANSITIONS.terminal == {
        ItemStatus.DONE,
        ItemStatus.SKIPPED,
        ItemStatus.FAILED,
        ItemStatus.CANCELLED,
    }
    assert ATTEMPT_TRANSITIONS.terminal == {
        AttemptStatus.PRESENT,
        AttemptStatus.FAILED,
        AttemptStatus.ABORTED,
    }
    assert AGENT_TRANSITIONS.terminal == {AgentStatus.RETIRED}


def test_an_illegal_move_names_what_would_be_legal() -> None:
    with pytest.raises(IllegalTransition, match="UP is followed by LOST, RETIRED, not by JOINING"):
        AGENT_TRANSITIONS.check(AgentStatus.UP, AgentStatus.JOINING)


class AnyWalk(RuleBasedStateMachine):
    """A walk over the tables takes only edges, and stops for ever at an end."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[str, StrEnum] = {m.name: m.initial for m in ALL_TRANSITIONS}
        self.ended: dict[str, StrEnum] = {}

    @rule(machine=st.sampled_from(ALL_TRANSITIONS), pick=st.integers(0, 20))
    def try_any_state(self, machine: TransitionTable[StrEnum], pick: int) -> None:
        target = machine.states[pick % len(machine.states)]
        present = self.at[machine.name]
        if machine.allows(present, target):
            machine.check(present, target)
            assert present in machine.sources(target)
            self.at[machine.name] = target
        else:
            with pytest.raises(IllegalTransition):
                machine.check(present, target)

    @invariant()
    def an_end_stays(self) -> None:
        for machine in ALL_TRANSITIONS:
            if machine.name in self.ended:
                assert self.at[machine.name] is self.ended[machine.name]
            elif self.at[machine.name] in machine.terminal:
                self.ended[machine.name] = self.at[machine.name]


TestAnyWalk = AnyWalk.TestCase
