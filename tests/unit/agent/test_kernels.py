"""Every order about a kernel ends in what is certain, whatever the engine does meanwhile."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from rig.containers_in_memory import IMAGE_ID, ContainersInMemory
from rig.misbehaving_engine import DEAD

from wharfinger.agent.containers import ContainerListing
from wharfinger.agent.creator import AT_ONCE, LATE_SECONDS
from wharfinger.agent.engine.port import EngineError, Unanswered
from wharfinger.agent.kernels import Kernels
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.ours import AGENT, CLUSTER, GPUS, KERNEL, Ours, container_name
from wharfinger.contracts.rpc import (
    CreateAnswer,
    CreateOutcome,
    EndAnswer,
    EndOrder,
    EndOutcome,
    KernelOrder,
)
from wharfinger.domain.errors import UnknownId
from wharfinger.domain.failures import Failure, FailureClass

NAME = container_name("k1")
OURS = {KERNEL: "k1", CLUSTER: "c1", AGENT: "a1"}
REFUSED = EngineError(Failure(FailureClass.ENGINE_ERROR, "no", "the engine's own words"))
UNANSWERED = Unanswered(Failure(FailureClass.ENGINE_ERROR, "the engine went silent"))


class Yard:
    """An agent's kernels beside an engine that holds the image."""

    def __init__(self, gpus: int = 0) -> None:
        self.engine = ContainersInMemory()
        self.engine.hold_image()
        self.locks = KeyedLocks()
        self.ours = Ours("a1")
        self.ours.join("c1")
        self.containers = ContainerListing(self.engine, self.ours, asyncio.Event())
        self.kernels = Kernels(
            self.engine, locks=self.locks, ours=self.ours, containers=self.containers, gpus=gpus
        )

    async def create(
        self, kernel_id: str = "k1", *, gpu: int = 0, deadline: float = 5
    ) -> CreateAnswer:
        (answer,) = await self.kernels.create([order(kernel_id, gpu)], deadline)
        return answer

    async def end(self, kernel_id: str = "k1", *, deadline: float = 5) -> EndAnswer:
        (answer,) = await self.kernels.end([EndOrder(kernel_id=kernel_id)], deadline)
        return answer

    def hold_up(self, call: str) -> asyncio.Event:
        """The call waits from now on, until the event is set."""
        self.engine.held_up[call] = asyncio.Event()
        return self.engine.held_up[call]


def order(kernel_id: str, gpu: int = 0) -> KernelOrder:
    return KernelOrder(
        kernel_id=kernel_id,
        session_id="s1",
        owner="somebody",
        image_id=IMAGE_ID,
        reference="example.org/a:v1",
        cpu=1000,
        mem=2**20,
        gpu=gpu,
    )


def begin(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(call)


async def test_an_order_repeated_in_the_middle_joins_the_first() -> None:
    yard = Yard()
    let_go = yard.hold_up("start_container")
    first = begin(yard.create())
    await yard.engine.until_asked("start_container")
    second = begin(yard.create())
    assert yard.kernels.in_hand() == ("k1",)
    let_go.set()
    assert (await first).outcome is CreateOutcome.STARTED
    assert (await second).outcome is CreateOutcome.STARTED
    assert yard.engine.asked_for.count("create_container") == 1
    assert yard.kernels.in_hand() == ()


async def test_an_order_after_its_deadline_is_in_hand_and_goes_on() -> None:
    yard = Yard()
    let_go = yard.hold_up("create_container")
    assert (await yard.create(deadline=0)).outcome is CreateOutcome.CREATING
    assert yard.kernels.in_hand() == ("k1",)
    let_go.set()
    assert (await yard.create()).outcome is CreateOutcome.STARTED


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, "running"),
        ({"state": "running", "running": True, "started_at": 1.0}, "running"),
        ({"state": "exited", "started_at": 1.0, "ended_at": 2.0}, "exited"),
    ],
)
async def test_what_an_agent_before_it_made_is_adopted(facts: dict[str, Any], state: str) -> None:
    yard = Yard()
    yard.engine.put(NAME, labels=OURS, **facts)
    made = yard.engine.made[NAME].container_id
    answer = await yard.create()
    assert answer.outcome is CreateOutcome.STARTED
    assert answer.container is not None
    assert (answer.container.container_id, answer.container.state) == (made, state)


async def test_a_container_that_was_renamed_is_adopted_and_ended_by_who_never_saw_it() -> None:
    yard = Yard()
    yard.engine.put("renamed", labels=OURS)
    answer = await yard.create()
    assert answer.outcome is CreateOutcome.STARTED
    assert list(yard.engine.made) == ["renamed"]
    assert yard.engine.made["renamed"].running
    assert (await yard.end()).outcome is EndOutcome.ENDED
    assert not yard.engine.made["renamed"].running


async def test_all_containers_of_a_kernel_end_with_it() -> None:
    yard = Yard()
    for name in (NAME, "copy"):
        yard.engine.put(name, labels=OURS)
        yard.engine.run(name)
    await yard.containers.refresh()
    answer = await yard.end()
    assert answer.outcome is EndOutcome.ENDED
    assert answer.container is not None
    (left,) = yard.engine.made.values()
    assert (left.container_id, left.running) == (answer.container.container_id, False)


async def test_a_container_of_others_with_the_name_is_left_alone() -> None:
    yard = Yard()
    yard.engine.put(NAME, labels=OURS | {CLUSTER: "c2"})
    answer = await yard.create()
    assert answer.outcome is CreateOutcome.FAILED
    assert yard.engine.made[NAME].state == "created"


async def test_without_its_image_no_container_is_made() -> None:
    yard = Yard()
    yard.engine.held.clear()
    assert (await yard.create()).outcome is CreateOutcome.IMAGE_GONE
    assert "create_container" not in yard.engine.asked_for


async def test_a_container_that_runs_without_its_image_is_adopted_all_the_same() -> None:
    yard = Yard()
    yard.engine.held.clear()
    yard.engine.put(NAME, labels=OURS)
    yard.engine.run(NAME)
    assert (await yard.create()).outcome is CreateOutcome.STARTED


async def test_a_create_waits_for_a_removal_of_its_image() -> None:
    yard = Yard()
    async with yard.locks.hold(IMAGE_ID):
        creating = begin(yard.create())
        await asyncio.sleep(0)
        yard.engine.held.clear()
    assert (await creating).outcome is CreateOutcome.IMAGE_GONE


async def test_the_image_is_not_locked_while_its_container_starts() -> None:
    yard = Yard()
    let_go = yard.hold_up("start_container")
    creating = begin(yard.create())
    await yard.engine.until_asked("start_container")
    assert not yard.locks.busy(IMAGE_ID)
    let_go.set()
    await creating


@pytest.mark.parametrize("call", ["create_container", "start_container"])
async def test_what_the_engine_refuses_fails_and_leaves_nothing(call: str) -> None:
    yard = Yard()
    yard.engine.refused[call] = REFUSED
    answer = await yard.create()
    assert answer.outcome is CreateOutcome.FAILED
    assert answer.failure is not None
    assert answer.failure.detail == "the engine's own words"
    assert not yard.engine.made
    del yard.engine.refused[call]
    assert (await yard.create()).outcome is CreateOutcome.STARTED


async def test_what_the_engine_made_without_an_answer_is_removed() -> None:
    yard = Yard()
    yard.engine.unanswered.add("create_container")
    assert (await yard.create()).outcome is CreateOutcome.FAILED
    assert not yard.engine.made


@pytest.mark.looptime
async def test_what_the_engine_makes_late_is_waited_for_and_removed() -> None:
    yard = Yard()
    yard.engine.refused["create_container"] = UNANSWERED
    creating = begin(yard.create(deadline=60))
    await asyncio.sleep(LATE_SECONDS / 3)
    yard.engine.refused["container"] = yard.engine.refused["containers"] = DEAD
    await asyncio.sleep(2 * LATE_SECONDS)
    yard.engine.refused.clear()
    await asyncio.sleep(LATE_SECONDS / 2)
    assert not creating.done()
    yard.engine.put(NAME, labels=OURS)
    assert (await creating).outcome is CreateOutcome.FAILED
    assert not yard.engine.made


@pytest.mark.looptime
async def test_what_does_not_come_late_is_absent_once_the_engine_has_answered_for_a_while() -> None:
    yard = Yard()
    yard.engine.refused["create_container"] = UNANSWERED
    began = asyncio.get_running_loop().time()
    assert (await yard.create(deadline=60)).outcome is CreateOutcome.FAILED
    assert LATE_SECONDS <= asyncio.get_running_loop().time() - began < 3 * LATE_SECONDS


async def test_what_the_engine_started_without_an_answer_has_started() -> None:
    yard = Yard()
    yard.engine.unanswered.add("start_container")
    assert (await yard.create()).outcome is CreateOutcome.STARTED


async def test_nothing_is_said_to_have_failed_before_its_absence_is_certain() -> None:
    yard = Yard()
    yard.engine.refused["start_container"] = yard.engine.refused["container"] = DEAD
    creating = begin(yard.create(deadline=0))
    assert (await creating).outcome is CreateOutcome.CREATING
    await yard.engine.until_asked("container", 2)
    assert yard.kernels.in_hand() == ("k1",)
    del yard.engine.refused["container"]
    assert (await yard.create()).outcome is CreateOutcome.FAILED
    assert not yard.engine.made


async def test_only_so_many_are_made_at_once() -> None:
    yard = Yard()
    let_go = yard.hold_up("start_container")
    many = [order(f"k{number}") for number in range(AT_ONCE + 2)]
    creating = begin(yard.kernels.create(many, 5))
    await yard.engine.until_asked("start_container", AT_ONCE)
    for _ in range(20):
        await asyncio.sleep(0)
    assert yard.engine.asked_for.count("start_container") == AT_ONCE
    let_go.set()
    assert {answer.outcome for answer in await creating} == {CreateOutcome.STARTED}


async def test_creates_of_one_image_run_side_by_side() -> None:
    yard = Yard()
    let_go = yard.hold_up("create_container")
    creating = begin(yard.kernels.create([order("k1"), order("k2")], 5))
    await yard.engine.until_asked("create_container", 2)
    let_go.set()
    assert {answer.outcome for answer in await creating} == {CreateOutcome.STARTED}


async def test_who_waits_for_an_image_takes_no_place() -> None:
    yard = Yard()
    other = "sha256:" + "2" * 64
    yard.engine.held[other] = replace(yard.engine.held[IMAGE_ID], image_id=other)
    async with yard.locks.hold(IMAGE_ID):
        waiting = begin(yard.kernels.create([order(f"k{n}") for n in range(AT_ONCE)], 5))
        for _ in range(20):
            await asyncio.sleep(0)
        (answer,) = await yard.kernels.create(
            [order("other").model_copy(update={"image_id": other})], 5
        )
        assert answer.outcome is CreateOutcome.STARTED
    assert {answer.outcome for answer in await waiting} == {CreateOutcome.STARTED}


async def test_containers_that_are_made_at_once_get_devices_of_their_own() -> None:
    yard = Yard(gpus=3)
    many = [order(f"k{number}", gpu=1) for number in range(4)]
    answers = await yard.kernels.create(many, 5)
    assert [answer.outcome for answer in answers].count(CreateOutcome.FAILED) == 1
    specs = yard.engine.specs.values()
    assert sorted(gpu for spec in specs for gpu in spec.gpus) == ["0", "1", "2"]
    assert all(spec.labels[GPUS] == ",".join(spec.gpus) for spec in specs)


async def test_nothing_is_made_of_an_ended_kernel() -> None:
    yard = Yard()
    assert (await yard.end()).outcome is EndOutcome.ABSENT
    assert (await yard.create()).outcome is CreateOutcome.ENDED
    assert "create_container" not in yard.engine.asked_for


async def test_an_end_before_the_start_leaves_a_container_unstarted_and_gone() -> None:
    yard = Yard()
    let_go = yard.hold_up("create_container")
    creating = begin(yard.create())
    await yard.engine.until_asked("create_container")
    ending = begin(yard.end())
    await asyncio.sleep(0)
    let_go.set()
    assert (await creating).outcome is CreateOutcome.ENDED
    assert (await ending).outcome is EndOutcome.ABSENT
    assert not yard.engine.made
    assert "start_container" not in yard.engine.asked_for


async def test_an_end_during_the_start_waits_and_stops_it() -> None:
    yard = Yard()
    let_go = yard.hold_up("start_container")
    creating = begin(yard.create())
    await yard.engine.until_asked("start_container")
    ending = begin(yard.end())
    await asyncio.sleep(0)
    let_go.set()
    assert (await creating).outcome is CreateOutcome.STARTED
    assert (await ending).outcome is EndOutcome.ENDED
    assert not yard.engine.made[NAME].running


async def test_an_end_goes_on_after_its_deadline_and_is_told_once_asked_again() -> None:
    yard = Yard()
    await yard.create()
    let_go = yard.hold_up("stop_container")
    assert (await yard.end(deadline=0)).outcome is EndOutcome.RUNNING
    let_go.set()
    answer = await yard.end()
    assert answer.outcome is EndOutcome.ENDED
    assert answer.container is not None
    assert answer.container.exit_code == 143
    assert yard.engine.asked_for.count("stop_container") == 1


async def test_what_the_engine_cannot_stop_is_a_failure_with_its_words() -> None:
    yard = Yard()
    await yard.create()
    yard.engine.refused["stop_container"] = REFUSED
    answer = await yard.end()
    assert answer.outcome is EndOutcome.FAILED
    assert answer.failure is not None
    assert answer.failure.detail == "the engine's own words"


async def test_what_was_stopped_without_an_answer_has_ended() -> None:
    yard = Yard()
    await yard.create()
    yard.engine.unanswered.add("stop_container")
    assert (await yard.end()).outcome is EndOutcome.ENDED


async def test_a_container_the_engine_cannot_remove_has_ended() -> None:
    yard = Yard()
    yard.engine.put(NAME, labels=OURS, state="dead", problem="unable to remove filesystem")
    answer = await yard.end()
    assert answer.outcome is EndOutcome.ENDED
    assert answer.container is not None
    assert answer.container.problem == "unable to remove filesystem"
    assert "stop_container" not in yard.engine.asked_for


async def test_a_log_that_nobody_can_read_does_not_hold_up_an_end() -> None:
    yard = Yard()
    await yard.create()
    yard.engine.refused["container_log"] = REFUSED
    answer = await yard.end()
    assert answer.outcome is EndOutcome.ENDED
    assert answer.log is None


async def test_an_engine_that_dies_at_the_log_is_a_failure_to_end() -> None:
    yard = Yard()
    await yard.create()
    let_go = yard.hold_up("container_log")
    ending = begin(yard.end())
    await yard.engine.until_asked("container_log")
    yard.engine.refused["container_log"] = yard.engine.refused["container"] = DEAD
    let_go.set()
    assert (await ending).outcome is EndOutcome.FAILED


async def test_a_removal_the_engine_refuses_is_told_in_its_words() -> None:
    yard = Yard()
    await yard.create()
    await yard.end()
    yard.engine.refused["remove_container"] = REFUSED
    (answer,) = await yard.kernels.remove(["k1"], 5)
    assert answer.failure is not None
    assert answer.failure.detail == "the engine's own words"


async def test_a_removal_is_known_at_once() -> None:
    yard = Yard()
    await yard.containers.refresh()
    await yard.create()
    await yard.end()
    assert yard.containers.current
    await yard.kernels.remove(["k1"], 5)
    assert yard.containers.current == ()


async def test_the_log_of_no_kernel_is_unknown() -> None:
    with pytest.raises(UnknownId):
        await Yard().kernels.log("k1", tail_bytes=1, follow=False)


async def test_closing_ends_the_work_and_no_container() -> None:
    yard = Yard()
    await yard.create("k1")
    yard.hold_up("start_container")
    creating = begin(yard.create("k2", deadline=0))
    await creating
    await yard.kernels.close()
    assert yard.kernels.in_hand() == ()
    assert yard.engine.made[NAME].running
