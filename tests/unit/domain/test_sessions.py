"""What follows from the states of kernels."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from wharfinger.domain.sessions import (
    AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES,
    BOUND,
    OPEN,
    TERMINAL,
    USER_RESOURCE_OCCUPYING_KERNEL_STATUSES,
    WITH_CONTAINER,
    session_status,
)
from wharfinger.domain.states import KERNEL_TRANSITIONS, KernelStatus

statuses = st.lists(st.sampled_from(KernelStatus), min_size=1, max_size=5)


def test_an_agents_slots_are_occupied_from_scheduled_to_terminating() -> None:
    assert {*BOUND, *WITH_CONTAINER} == AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES
    assert set(OPEN) - {KernelStatus.PENDING} == AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES


def test_a_user_pays_for_all_of_that_but_pulling() -> None:
    occupied = AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES
    assert occupied - USER_RESOURCE_OCCUPYING_KERNEL_STATUSES == {KernelStatus.PULLING}


def test_only_what_has_no_container_goes_back_to_the_queue_or_is_cancelled_at_once() -> None:
    back = KERNEL_TRANSITIONS.sources(KernelStatus.PENDING)
    assert back == {*BOUND, KernelStatus.CREATING}
    at_once = KERNEL_TRANSITIONS.sources(KernelStatus.CANCELLED)
    assert at_once == {KernelStatus.PENDING, *BOUND, KernelStatus.TERMINATING}


def test_everything_open_can_fail() -> None:
    assert KERNEL_TRANSITIONS.sources(KernelStatus.ERROR) == set(OPEN)


@given(statuses)
def test_a_session_is_pulling_exactly_when_a_kernel_is(kernels: list[KernelStatus]) -> None:
    assert (session_status(kernels) is KernelStatus.PULLING) == (KernelStatus.PULLING in kernels)


@given(statuses)
def test_a_session_ends_with_its_last_kernel(kernels: list[KernelStatus]) -> None:
    assert (session_status(kernels) in TERMINAL) == all(each in TERMINAL for each in kernels)


@given(statuses)
def test_a_session_stands_where_one_of_its_kernels_does(kernels: list[KernelStatus]) -> None:
    assert session_status(kernels) in kernels


@given(st.permutations(list(KernelStatus)), st.integers(1, 5))
def test_the_order_of_kernels_does_not_matter(some: list[KernelStatus], count: int) -> None:
    assert session_status(some[:count]) == session_status(some[:count][::-1])


class Session(RuleBasedStateMachine):
    """Kernels walk the table in any way it allows: what is derived from it must hold all along."""

    @initialize(count=st.integers(1, 4))
    def begin(self, count: int) -> None:
        self.kernels = [KERNEL_TRANSITIONS.initial] * count
        self.ran = [False] * count
        self.ended_as: dict[int, KernelStatus] = {}

    @rule(which=st.integers(0, 3), choice=st.integers(0, 20))
    def a_kernel_moves(self, which: int, choice: int) -> None:
        which %= len(self.kernels)
        targets = list(KERNEL_TRANSITIONS.edges.get(self.kernels[which], {}))
        if targets:
            self.kernels[which] = targets[choice % len(targets)]
            self.ran[which] |= self.kernels[which] is KernelStatus.RUNNING

    @invariant()
    def an_end_is_the_only_one(self) -> None:
        for which, status in enumerate(self.kernels):
            if status in TERMINAL:
                assert self.ended_as.setdefault(which, status) == status
            else:
                assert which not in self.ended_as

    @invariant()
    def what_may_have_a_container_occupies_its_agent(self) -> None:
        for status in self.kernels:
            if status in WITH_CONTAINER:
                assert status in AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES
                assert status in USER_RESOURCE_OCCUPYING_KERNEL_STATUSES

    @invariant()
    def what_ran_never_waits_again(self) -> None:
        for status, ran in zip(self.kernels, self.ran, strict=True):
            if ran:
                assert status in {KernelStatus.RUNNING, KernelStatus.TERMINATING} | TERMINAL

    @invariant()
    def the_session_says_running_only_when_all_that_live_run(self) -> None:
        if session_status(self.kernels) is KernelStatus.RUNNING:
            living = {status for status in self.kernels if status not in TERMINAL}
            assert living <= {KernelStatus.RUNNING, KernelStatus.TERMINATING}


TestSession = Session.TestCase
