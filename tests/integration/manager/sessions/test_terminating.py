"""Kernels end when their process is gone; containers are removed until they are."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from rig.host_in_memory import STUCK, HostCalls, HostInMemory
from rig.queues import insert_host, insert_session
from rig.tasks import eventually
from sqlalchemy import Connection, Row, select, update

from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.fleet import pause
from wharfinger.manager.sessions import kernels, leftovers
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.terminating import Terminate
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

TERMINATING = {
    "status": KernelStatus.TERMINATING,
    "agent_id": "a-1",
    "ends_as": KernelStatus.TERMINATED,
    "status_info": Reason.ENDED_BY_USER,
}


@dataclass
class Wharf:
    """The loop, with agent `a-1` in memory."""

    storage: Storage
    host: HostInMemory
    calls: HostCalls
    loop: Terminate

    async def session(self, *kernels: dict[str, Any]) -> None:
        await self.storage.write(insert_session, "s", *(TERMINATING | each for each in kernels))

    async def kernels(self) -> list[Kernel]:
        return await self.storage.read(kernels.of_session, "s")

    async def rows(self, table: Any) -> list[Row[Any]]:
        return await self.storage.read(lambda conn: list(conn.execute(select(table))))

    async def leave(self, kernel_id: str) -> None:
        """A container of this kernel is known as left over, and due."""
        self.host.run(kernel_id)
        await self.storage.write(leftovers.note, "a-1", kernel_id, "c", due_in=0.0)

    async def all_due(self) -> None:
        """What waits is due."""

        def rush(conn: Connection) -> None:
            conn.execute(update(tables.leftovers).values(next_try_at=0.0))
            conn.execute(update(tables.kernels).values(next_try_at=0.0))

        await self.storage.write(rush)

    async def until(self, holds: Callable[[list[Kernel], list[Row[Any]]], bool]) -> None:
        """Run the loop until this holds of the kernels and the leftovers."""

        async def reached() -> bool:
            return holds(await self.kernels(), await self.rows(tables.leftovers))

        await self.loop.start()
        await eventually(reached)
        await self.loop.stop()


@pytest.fixture
async def wharf(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wharf]:
    monkeypatch.setattr(pause, "_LONGEST", 0.001)
    await storage.write(insert_host, "a-1")
    bus, host = MemoryBus(), HostInMemory()
    calls = HostCalls(a_1=host)
    loop = Terminate(storage, bus, calls, by="test", period=0.01)
    yield Wharf(storage, host, calls, loop)
    await loop.stop()
    await bus.close()


def ended(found: list[Kernel], left: list[Row[Any]]) -> bool:
    return not any(kernel.is_open for kernel in found) and not left


async def test_a_kernel_ends_with_its_process_and_its_log_is_kept(wharf: Wharf) -> None:
    await wharf.session({}, {"exit_code": 7})
    for kernel_id in ("s-0", "s-1"):
        wharf.host.run(kernel_id)
        wharf.host.logs[kernel_id] = f"said by {kernel_id}".encode()
    await wharf.until(ended)
    found = await wharf.kernels()
    assert [kernel.status for kernel in found] == [KernelStatus.TERMINATED] * 2
    assert [kernel.exit_code for kernel in found] == [143, 7]
    assert {kernel.status_info for kernel in found} == {Reason.ENDED_BY_USER}
    kept = {row.kernel_id: row.data for row in await wharf.rows(tables.kernel_logs)}
    assert kept == {"s-0": b"said by s-0", "s-1": b"said by s-1"}
    assert wharf.host.containers == {}
    [session] = await wharf.rows(tables.sessions)
    assert session.ended_at is not None


@pytest.mark.parametrize(
    "ends_as", [KernelStatus.TERMINATED, KernelStatus.CANCELLED, KernelStatus.ERROR]
)
async def test_without_a_container_it_ends_as_it_was_to(
    wharf: Wharf, ends_as: KernelStatus
) -> None:
    await wharf.session({"ends_as": ends_as, "exit_code": 7})
    await wharf.until(ended)
    [kernel] = await wharf.kernels()
    assert (kernel.status, kernel.exit_code) == (ends_as, 7)
    assert await wharf.rows(tables.kernel_logs) == []


async def test_an_agent_that_does_not_answer_is_asked_again(wharf: Wharf) -> None:
    wharf.calls.unreachable.add("a-1")
    await wharf.session({})
    wharf.host.run("s-0")
    await wharf.loop.start()

    async def asked_twice() -> bool:
        return wharf.calls.calls.count("end") > 1

    await eventually(asked_twice)
    wharf.calls.unreachable.clear()
    await wharf.until(ended)
    assert wharf.host.containers == {}


async def test_one_that_the_engine_cannot_stop_says_so_and_is_tried_again(wharf: Wharf) -> None:
    await wharf.session({})
    wharf.host.run("s-0")
    wharf.host.cannot_stop.add("s-0")
    await wharf.until(lambda found, _: found[0].calls == 1)
    [kernel] = await wharf.kernels()
    assert (kernel.status, kernel.status_info) == (KernelStatus.TERMINATING, Reason.RETRYING)
    assert kernel.status_data is not None
    assert kernel.status_data["failure"] == STUCK.failure().to_json()
    assert not kernel.due
    wharf.host.cannot_stop.clear()
    await wharf.all_due()
    await wharf.until(ended)
    assert (await wharf.kernels())[0].status_info is Reason.ENDED_BY_USER


async def test_a_container_that_cannot_be_removed_holds_no_session_up(wharf: Wharf) -> None:
    await wharf.session({})
    wharf.host.run("s-0")
    wharf.host.cannot_remove.add("s-0")
    await wharf.until(lambda _, left: [row.tries for row in left] == [1])
    [kernel] = await wharf.kernels()
    assert (kernel.status, kernel.exit_code) == (KernelStatus.TERMINATED, 143)
    assert kernel.status_info is Reason.CONTAINER_LEFT
    assert kernel.status_data == {
        "agentId": "a-1",
        "problem": STUCK.detail,
        "before": {"statusInfo": "ended-by-user", "statusData": None},
    }
    await wharf.all_due()
    await wharf.until(lambda _, left: [row.tries for row in left] == [2])
    wharf.host.cannot_remove.clear()
    await wharf.all_due()
    await wharf.until(ended)
    assert wharf.host.containers == {}
    assert (await wharf.kernels())[0].status_info is Reason.ENDED_BY_USER


async def test_what_nobody_knows_is_ended_and_removed(wharf: Wharf) -> None:
    await wharf.session({"status": KernelStatus.ERROR, "ended_at": 1.0})
    await wharf.leave("s-0")
    await wharf.leave("nobody")
    wharf.host.logs = {"s-0": b"late", "nobody": b"lost"}
    await wharf.until(ended)
    assert wharf.host.containers == {}
    assert [row.data for row in await wharf.rows(tables.kernel_logs)] == [b"late"]


async def test_what_is_current_again_is_left_alone(wharf: Wharf) -> None:
    await wharf.session({"status": KernelStatus.RUNNING})
    await wharf.leave("s-0")
    await wharf.loop.run_once()
    assert wharf.calls.calls == []
    assert not wharf.host.containers["s-0"].ended


async def test_the_next_manager_removes_what_the_last_one_only_ended(wharf: Wharf) -> None:
    await wharf.session({})
    wharf.host.run("s-0")
    remove, wharf.calls.remove_kernels = wharf.calls.remove_kernels, _never  # type: ignore[method-assign]  # dies
    await wharf.until(lambda found, _: not found[0].is_open)
    assert list(wharf.host.containers) == ["s-0"]
    wharf.calls.remove_kernels = remove  # type: ignore[method-assign]
    await wharf.all_due()
    await wharf.until(ended)
    assert wharf.host.containers == {}


async def test_agents_that_are_away_are_not_asked(wharf: Wharf) -> None:
    await wharf.session({})
    await wharf.leave("nobody")
    await wharf.storage.write(
        lambda conn: conn.execute(update(tables.agents).values(status=AgentStatus.LOST))
    )
    await wharf.loop.run_once()
    assert wharf.calls.calls == []


async def test_one_that_takes_its_time_to_stop_holds_nobody_up(wharf: Wharf) -> None:
    await wharf.session({})
    wharf.host.run("s-0")
    stopped = wharf.calls.held_up["s-0"] = asyncio.Event()
    await wharf.loop.start()

    async def asked() -> bool:
        return wharf.calls.calls == ["end"]

    await eventually(asked)
    await wharf.storage.write(insert_session, "next", TERMINATING)

    async def next_ended() -> bool:
        [kernel] = await wharf.storage.read(kernels.of_session, "next")
        return not kernel.is_open

    await eventually(next_ended)
    assert (await wharf.kernels())[0].is_open
    stopped.set()
    await wharf.until(ended)


async def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the manager died before this")
