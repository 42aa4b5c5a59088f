"""One subscription keeps every listing current."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rig.containers_in_memory import ContainersInMemory
from rig.misbehaving_engine import DEAD

from wharfinger.agent.engine.port import Change, EngineDescription
from wharfinger.agent.engine_watch import EngineWatch, Listing


@dataclass
class Counted:
    """A listing that counts."""

    debounce_seconds: float = 0.0
    relist_seconds: float = 60.0
    again_seconds: float = 0.0
    nudged: asyncio.Event = field(default_factory=asyncio.Event)
    refreshed: int = 0
    losses: int = 0
    told: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def refresh(self) -> None:
        async with self.told:
            self.refreshed += 1
            self.told.notify_all()

    def lost(self) -> None:
        self.losses += 1

    async def times(self, number: int) -> None:
        async with asyncio.timeout(5), self.told:
            await self.told.wait_for(lambda: self.refreshed >= number)


@dataclass
class CountedEngine(ContainersInMemory):
    """An engine that counts how often it is asked who it is, and whose events may break off."""

    described: int = 0
    breaks: asyncio.Event = field(default_factory=asyncio.Event)

    async def describe(self) -> EngineDescription:
        self.described += 1
        return await super().describe()

    async def changes(self) -> AsyncIterator[Change]:
        for change in Change:
            yield change
        await self.breaks.wait()
        self.breaks.clear()
        raise DEAD


@asynccontextmanager
async def following(
    engine: ContainersInMemory, images: Listing, containers: Listing
) -> AsyncIterator[EngineWatch]:
    watch = EngineWatch(
        engine, asyncio.Event(), {Change.IMAGES: images, Change.CONTAINERS: containers}
    )
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.wait({task})


async def turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_an_engine_whose_events_have_died_unseen_is_listed_all_the_same() -> None:
    images, containers = Counted(relist_seconds=0.01), Counted()
    async with following(ContainersInMemory(), images, containers):
        await images.times(3)
    assert containers.refreshed == 1


async def test_nothing_is_listed_while_nothing_changes() -> None:
    images, containers = Counted(), Counted()
    async with following(ContainersInMemory(), images, containers):
        await images.times(1)
        await turns()
    assert (images.refreshed, containers.refreshed) == (1, 1)


async def test_what_lags_behind_its_events_is_listed_once_more_after_a_change() -> None:
    engine, images, containers = ContainersInMemory(), Counted(), Counted(again_seconds=0.01)
    async with following(engine, images, containers):
        await containers.times(2)  # the subscription itself tells of a change
    assert images.refreshed == 1


async def test_a_change_of_containers_lists_no_images() -> None:
    engine, images, containers = ContainersInMemory(), Counted(), Counted()
    async with following(engine, images, containers):
        await containers.times(1)
        engine.put("somebody's")
        await containers.times(2)
        await turns()
    assert images.refreshed == 1


async def test_a_broken_subscription_is_trouble_until_the_next_stands() -> None:
    engine, images, containers = CountedEngine(), Counted(), Counted()
    async with following(engine, images, containers) as watch:
        await containers.times(1)
        engine.breaks.set()
        await turns()
        assert watch.facts.problem == DEAD.message
        assert containers.losses == 1
        await containers.times(2)
        assert not watch.facts.problem


async def test_the_engine_is_asked_once_per_connection_who_it_is() -> None:
    engine, images, containers = CountedEngine(), Counted(), Counted()
    async with following(engine, images, containers) as watch:
        await containers.times(1)
        for _ in range(3):
            await watch.describe()
        assert engine.described == 1
        engine.breaks.set()
        await turns()
        await watch.describe()
        assert engine.described == 2
