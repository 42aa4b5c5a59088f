"""Reading the output of kernels whose agent answers as it is told to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from rig.session_rows import LIFE, add_session, advance
from rig.tasks import within
from sqlalchemy import Connection, insert

from wharfinger.domain.errors import Conflict, UnknownId
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.fleet.calls import AgentUnreachable
from wharfinger.manager.sessions import channels
from wharfinger.manager.sessions.bells import SessionBells
from wharfinger.manager.sessions.logs import KernelLogs
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage


@dataclass
class ToldAgent:
    """Has the outputs it is given; `error` breaks them off; following ends when `ended`."""

    outputs: dict[str, bytes] = field(default_factory=dict)
    error: Exception | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[tuple[str, str, bool, int]] = field(default_factory=list)
    open: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def kernel_log(
        self, agent_id: str, kernel_id: str, *, follow: bool, tail_bytes: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((agent_id, kernel_id, follow, tail_bytes))
        if kernel_id not in self.outputs:
            self.gone.set()
            raise UnknownId(f"no container of {kernel_id}")
        self.open += 1
        try:
            yield self._pieces(self.outputs[kernel_id], follow)
        finally:
            self.open -= 1

    async def _pieces(self, output: bytes, follow: bool) -> AsyncGenerator[bytes, None]:
        yield output
        if self.error is not None:
            raise self.error
        if follow:
            await self.ended.wait()
            yield b"the end\n"


@dataclass
class Here:
    storage: Storage
    bus: MemoryBus
    agent: ToldAgent
    bells: SessionBells
    logs: KernelLogs

    async def all_of(
        self, kernel_id: str | None = None, *, follow: bool = False, tail_bytes: int = 1000
    ) -> bytes:
        async with (
            asyncio.timeout(20),
            self.logs.open("s1", kernel_id, follow=follow, tail_bytes=tail_bytes) as log,
        ):
            return b"".join([piece async for piece in log])

    async def advance(self, kernel_id: str, upto: KernelStatus) -> None:
        await self.storage.write(_bound, kernel_id, upto)
        await channels.ring(self.bus)

    async def move(self, kernel_id: str, *states: KernelStatus) -> None:
        await self.storage.write(advance, kernel_id, *states)
        await channels.ring(self.bus)


def _bound(conn: Connection, kernel_id: str, upto: KernelStatus) -> None:
    advance(conn, kernel_id, upto=upto, agent_id="one")


def keep(conn: Connection, data: bytes, *, truncated: bool = False) -> None:
    conn.execute(
        insert(tables.kernel_logs).values(kernel_id="s1-k1", data=data, truncated=truncated)
    )


@pytest.fixture
async def here(storage: Storage) -> AsyncIterator[Here]:
    bus, agent = MemoryBus(), ToldAgent()
    bells = SessionBells(storage, bus, reread=60.0)
    bells.start()
    await storage.write(add_session, kernel_count=2)
    yield Here(storage, bus, agent, bells, KernelLogs(storage, agent, bells))
    await bells.stop()


async def test_a_running_kernels_output_is_its_agents(here: Here) -> None:
    await here.advance("s1-k1", KernelStatus.RUNNING)
    here.agent.outputs["s1-k1"] = b"hello\n"
    assert await here.all_of(tail_bytes=77) == b"hello\n"
    assert here.agent.asked == [("one", "s1-k1", False, 77)]
    assert here.agent.open == 0


async def test_another_kernels_output_is_read_by_its_id(here: Here) -> None:
    await here.advance("s1-k2", KernelStatus.RUNNING)
    here.agent.outputs["s1-k2"] = b"two\n"
    assert await here.all_of("s1-k2") == b"two\n"


async def test_an_ended_kernels_output_is_what_was_kept(here: Here) -> None:
    await here.advance("s1-k1", KernelStatus.TERMINATED)
    await here.storage.write(keep, b"0123456789", truncated=True)
    async with here.logs.open("s1", None, follow=True, tail_bytes=4) as log:
        assert log.truncated
        assert [piece async for piece in log] == [b"6789"]
    assert await here.all_of(tail_bytes=0) == b""
    assert await here.all_of(tail_bytes=100) == b"0123456789"
    assert here.agent.asked == []


async def test_a_container_gone_meanwhile_leaves_what_was_kept(here: Here) -> None:
    await here.advance("s1-k1", KernelStatus.RUNNING)

    @asynccontextmanager
    async def gone(*_: object, **__: object) -> AsyncIterator[AsyncIterator[bytes]]:
        await here.storage.write(keep, b"last words", truncated=True)
        raise UnknownId("gone")
        yield

    here.agent.kernel_log = gone  # type: ignore[method-assign]  # as a race has it
    async with here.logs.open("s1", None, follow=False, tail_bytes=100) as log:
        assert log.truncated
        assert [piece async for piece in log] == [b"last words"]


async def test_following_goes_on_until_the_container_ends(here: Here) -> None:
    await here.advance("s1-k1", KernelStatus.RUNNING)
    here.agent.outputs["s1-k1"] = b"begun\n"
    async with here.logs.open("s1", None, follow=True, tail_bytes=100) as log:
        assert await within(anext(log)) == b"begun\n"
        here.agent.ended.set()
        assert await within(anext(log)) == b"the end\n"


async def test_leaving_closes_what_was_opened_at_the_agent(here: Here) -> None:
    await here.advance("s1-k1", KernelStatus.RUNNING)
    here.agent.outputs["s1-k1"] = b"begun\n"
    async with here.logs.open("s1", None, follow=True, tail_bytes=100) as log:
        await within(anext(log))
        assert here.agent.open == 1
    assert here.agent.open == 0


@pytest.mark.parametrize("state", LIFE[:4])
async def test_without_a_container_it_is_refused_saying_why(
    here: Here, state: KernelStatus
) -> None:
    await here.advance("s1-k1", state)
    with pytest.raises(Conflict, match=f"has no container: it is {state}"):
        await here.all_of()


async def test_one_that_never_ran_is_refused_even_to_followers(here: Here) -> None:
    await here.move("s1-k1", KernelStatus.CANCELLED)
    for follow in (False, True):
        with pytest.raises(Conflict, match="never ran: it ended as CANCELLED"):
            await here.all_of(follow=follow)


async def test_followers_wait_for_the_container(here: Here) -> None:
    following = asyncio.create_task(here.all_of(follow=True))
    here.agent.ended.set()
    # being made: its agent does not have it yet
    await here.advance("s1-k1", KernelStatus.CREATING)
    await within(here.agent.gone.wait())
    here.agent.outputs["s1-k1"] = b"at last\n"
    await here.move("s1-k1", KernelStatus.RUNNING)
    assert await within(following) == b"at last\nthe end\n"
    assert here.agent.open == 0


async def test_followers_end_with_a_session_that_ends_before(here: Here) -> None:
    async with here.logs.open("s1", None, follow=True, tail_bytes=100) as log:
        waiting = asyncio.create_task(anext(log, b"nothing"))
        await here.move("s1-k1", KernelStatus.CANCELLED)
        assert await within(waiting) == b"nothing"


async def test_followers_are_told_when_the_manager_stops(here: Here) -> None:
    async with here.logs.open("s1", None, follow=True, tail_bytes=100) as log:
        waiting = asyncio.create_task(anext(log, b"nothing"))
        await asyncio.sleep(0)
        await here.bells.stop()
        with pytest.raises(Conflict, match="stopping"):
            await within(waiting)


async def test_an_agent_that_breaks_off_is_told(here: Here) -> None:
    await here.advance("s1-k1", KernelStatus.RUNNING)
    here.agent.outputs["s1-k1"] = b"begun\n"
    here.agent.error = AgentUnreachable("cut")
    with pytest.raises(AgentUnreachable):
        await here.all_of(follow=True)
    assert here.agent.open == 0


@pytest.mark.parametrize(("session_id", "kernel_id"), [("nothing", None), ("s1", "s2-k1")])
async def test_what_is_not_there_is_unknown(
    here: Here, session_id: str, kernel_id: str | None
) -> None:
    with pytest.raises(UnknownId):
        async with here.logs.open(session_id, kernel_id, follow=False, tail_bytes=1):
            pass
