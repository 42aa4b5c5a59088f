"""Which devices a container gets."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.containers_in_memory import ContainersInMemory

from wharfinger.agent.devices import Devices, lowest_free
from wharfinger.agent.engine.port import EngineError
from wharfinger.agent.ours import AGENT, CLUSTER, GPUS, KERNEL, Ours
from wharfinger.domain.failures import FailureClass

COUNT = 4


@pytest.fixture
def engine() -> ContainersInMemory:
    return ContainersInMemory()


@pytest.fixture
def devices(engine: ContainersInMemory) -> Devices:
    ours = Ours("a1")
    ours.join("c1")
    return Devices(engine, ours, COUNT)


def hold(engine: ContainersInMemory, name: str, gpus: str, **facts: object) -> None:
    labels = {KERNEL: name, CLUSTER: "c1", AGENT: "a1", GPUS: gpus}
    engine.put(name, labels=labels, **facts)


async def test_ended_containers_and_those_of_others_hold_nothing(
    engine: ContainersInMemory, devices: Devices
) -> None:
    hold(engine, "created", "0")
    hold(engine, "running", "2", state="running")
    hold(engine, "ended", "1", state="exited")
    engine.put("others", labels={KERNEL: "k9", CLUSTER: "c2", AGENT: "a1", GPUS: "3"})
    async with devices.chosen(2) as gpus:
        assert gpus == ("1", "3")


async def test_two_that_choose_at_once_get_different_ones(
    engine: ContainersInMemory, devices: Devices
) -> None:
    async def choose(name: str) -> tuple[str, ...]:
        async with devices.chosen(2) as gpus:
            await asyncio.sleep(0)
            hold(engine, name, ",".join(gpus))
            return gpus

    assert set(await asyncio.gather(choose("k1"), choose("k2"))) == {("0", "1"), ("2", "3")}


async def test_none_are_asked_for_without_a_call(
    engine: ContainersInMemory, devices: Devices
) -> None:
    async with devices.chosen(0) as gpus:
        assert gpus == ()
    assert engine.asked_for == []


@given(st.integers(1, 5), st.integers(0, 5), st.sets(st.integers(0, 6).map(str)))
def test_what_is_chosen_is_free_and_the_lowest(number: int, count: int, held: set[str]) -> None:
    free = sorted(set(map(str, range(count))) - held)
    if len(free) >= number:
        assert list(lowest_free(number, count, held)) == free[:number]
        return
    with pytest.raises(EngineError) as refused:
        lowest_free(number, count, held)
    assert refused.value.failure.failure_class is FailureClass.ENGINE_ERROR
