"""Watching sessions whose rows change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
from rig.session_rows import LIFE, add_session, advance, read_session
from rig.tasks import LossyBus, eventually, within
from sqlalchemy import Connection

from wharfinger.domain.errors import UnknownId
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.fleet.service import PROGRESS
from wharfinger.manager.sessions import channels, kernels
from wharfinger.manager.sessions.bells import SessionBells
from wharfinger.manager.sessions.live import LivePulls
from wharfinger.manager.sessions.story import SessionEvent
from wharfinger.manager.sessions.views import SessionView
from wharfinger.manager.sessions.watch import SessionWatch
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Watched:
    """What watches, and how often it read a session."""

    storage: Storage
    bus: Bus
    watch: SessionWatch
    bells: SessionBells
    live: LivePulls
    readings: list[str]

    async def change(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        await self.storage.write(function, *args, **kwargs)
        await channels.ring(self.bus)

    @asynccontextmanager
    async def watching(
        self, session_id: str = "s1", *, after: str | None = None
    ) -> AsyncIterator[AsyncIterator[SessionEvent]]:
        async with self.watch.watch(session_id, last_event_id=after) as events:
            yield events


@asynccontextmanager
async def watched(storage: Storage, bus: Bus, *, reread: float) -> AsyncIterator[Watched]:
    bells, live = SessionBells(storage, bus, reread=reread), LivePulls(bus)
    readings: list[str] = []

    async def read(session_id: str) -> SessionView:
        readings.append(session_id)
        return await storage.read(read_session, session_id)

    live.start()
    bells.start()
    try:
        yield Watched(storage, bus, SessionWatch(bells, live, read), bells, live, readings)
    finally:
        await bells.stop()
        await live.stop()


@pytest.fixture
async def here(storage: Storage) -> AsyncIterator[Watched]:
    """Rung by the bus, and hardly ever without."""
    async with watched(storage, MemoryBus(), reread=60.0) as ready:
        yield ready


async def rest(events: AsyncIterator[SessionEvent]) -> list[SessionEvent]:
    async with asyncio.timeout(20):
        return [event async for event in events]


def moves(events: list[SessionEvent]) -> list[str]:
    return [
        event.data["transition"]["to"]
        for event in events
        if event.kind == "kernel_updated" and event.data["transition"]
    ]


def life(conn: Connection, kernel_id: str) -> None:
    advance(conn, kernel_id, upto=KernelStatus.TERMINATED)


async def test_every_transition_is_told_though_all_happened_at_once(here: Watched) -> None:
    await here.storage.write(add_session)
    async with here.watching() as events:
        first = await within(anext(events))
        assert (first.kind, first.data["status"]) == ("session_updated", "PENDING")
        await here.change(life, "s1-k1")
        told = await rest(events)
    assert moves(told) == [state.value for state in LIFE]
    assert told[-1].kind == "session_ended"
    assert told[-1].data["status"] == "TERMINATED"
    assert [int(event.id) for event in told] == sorted(int(event.id) for event in told)


async def test_kernels_that_end_one_after_the_other_are_told_to_the_end(here: Watched) -> None:
    await here.storage.write(add_session, kernel_count=3)
    async with here.watching() as events:
        await within(anext(events))
        for place in (1, 2, 3):
            await here.change(life, f"s1-k{place}")
        told = await rest(events)
    assert len(moves(told)) == 3 * len(LIFE)
    assert [event.kind for event in told].count("session_ended") == 1
    for place in (1, 2, 3):
        own = [event for event in told if event.data.get("kernelId") == f"s1-k{place}"]
        assert moves(own) == [state.value for state in LIFE]


async def test_a_session_that_has_ended_tells_what_it_is_and_its_end(here: Watched) -> None:
    await here.storage.write(add_session)
    await here.storage.write(life, "s1-k1")
    async with here.watching() as events:
        told = await rest(events)
    assert [event.kind for event in told] == ["session_updated", "session_ended"]


async def test_who_comes_back_is_told_what_was_missed(here: Watched) -> None:
    await here.storage.write(add_session)
    async with here.watching() as events:
        await within(anext(events))
        await here.change(advance, "s1-k1", KernelStatus.SCHEDULED)
        seen = await within(anext(events))
    await here.change(advance, "s1-k1", *LIFE[1:])
    async with here.watching(after=seen.id) as events:
        told = await rest(events)
    assert told[0].kind == "session_updated"
    assert moves(told) == [state.value for state in LIFE[1:]]


async def test_an_unknown_session_is_refused(here: Watched) -> None:
    with pytest.raises(UnknownId):
        async with here.watching("nothing"):
            pass


async def test_another_reason_is_told(here: Watched) -> None:
    def explain(conn: Connection) -> None:
        (kernel,) = kernels.where(conn, tables.kernels.c.id == "s1-k1", lock=True)
        assert kernels.explain(conn, kernel, Reason.NO_FREE_SLOTS, {"free": 1})

    await here.storage.write(add_session)
    async with here.watching() as events:
        await within(anext(events))
        await here.change(explain)
        kernel, session = [await within(anext(events)) for _ in range(2)]
    assert (kernel.data["transition"], kernel.data["statusInfo"]) == (None, "no-free-slots")
    assert (session.kind, session.data["statusInfo"]) == ("session_updated", "no-free-slots")


def progress(attempt_id: str, done: int) -> Message:
    said: dict[str, Any] = {
        "attemptId": attempt_id,
        "phase": "downloading",
        "bytesDone": done,
        "bytesTotal": 100,
    }
    return Message("", "progress", {"progress": [said]})


async def test_a_pull_is_told_as_it_goes_on(here: Watched) -> None:
    await here.storage.write(add_session)
    await here.storage.write(advance, "s1-k1", upto=KernelStatus.PREPARING, attempt_id="a1")
    async with here.watching() as events:
        await within(anext(events))
        for done in (10, 60):
            await here.bus.publish(PROGRESS, progress("a1", done))
            event = await within(anext(events))
            assert event.kind == "kernel_updated"
            assert event.data["pull"]["bytesDone"] == done
            assert event.data["transition"] is None
    async with here.watching() as events:
        late = await within(anext(events))
    assert late.data["kernels"][0]["pull"]["bytesDone"] == 60


async def test_what_the_bus_lost_is_told_all_the_same(sqlite_storage: Storage) -> None:
    bus = LossyBus(MemoryBus())
    bus.losing = True
    async with watched(sqlite_storage, bus, reread=0.05) as here:
        await sqlite_storage.write(add_session)
        async with here.watching() as events:
            await within(anext(events))
            await here.change(life, "s1-k1")
            assert moves(await rest(events)) == [state.value for state in LIFE]


async def test_a_change_of_one_session_makes_nobody_read_another(here: Watched) -> None:
    await here.storage.write(add_session, "s1")
    await here.storage.write(add_session, "s2")
    async with here.watching("s1") as one, here.watching("s2") as two:
        await within(anext(one))
        await within(anext(two))
        following = asyncio.create_task(rest(two))
        await here.bells.look()
        await here.bells.look()
        before = here.readings.count("s2")
        await here.change(life, "s1-k1")
        await rest(one)
        await here.bells.look()
        assert here.readings.count("s2") == before
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_watchers_stop_without_an_end_when_the_manager_stops(here: Watched) -> None:
    await here.storage.write(add_session)
    async with here.watching() as events:
        await within(anext(events))
        following = asyncio.create_task(rest(events))
        await asyncio.sleep(0)
        await here.bells.stop()
        assert [event.kind for event in await within(following)] == []


async def test_many_watchers_of_one_session_are_all_told(here: Watched) -> None:
    await here.storage.write(add_session)

    begun: list[SessionEvent] = []

    async def follow() -> list[str]:
        async with here.watching() as events:
            begun.append(await anext(events))
            return moves(await rest(events))

    following = [asyncio.create_task(follow()) for _ in range(20)]

    async def all_began() -> bool:
        return len(begun) == len(following)

    await eventually(all_began)
    await here.change(life, "s1-k1")
    assert await asyncio.gather(*following) == [[state.value for state in LIFE]] * 20
