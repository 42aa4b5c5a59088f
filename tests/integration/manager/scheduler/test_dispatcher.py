"""Rounds of the dispatcher on real databases."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from rig.queues import (
    DIGEST,
    ONE,
    avoid,
    hold_image,
    insert_host,
    insert_image,
    insert_session,
    insert_user,
)
from rig.tasks import within
from sqlalchemy import Connection, select, update

from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.port import Message
from wharfinger.manager.fleet.service import CHANGED as FLEET_CHANGED
from wharfinger.manager.scheduler.binding import bind
from wharfinger.manager.scheduler.decisions import Plan
from wharfinger.manager.scheduler.dispatcher import Dispatcher
from wharfinger.manager.scheduler.planning import plan
from wharfinger.manager.scheduler.reading import read_picture
from wharfinger.manager.sessions import channels, kernels
from wharfinger.manager.sessions.doorbells import Doorbells
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.transitions import history

TWO = ONE + ONE


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    bus = MemoryBus()
    yield bus
    await bus.close()


@pytest.fixture(autouse=True)
async def _ada_and_an_image(storage: Storage) -> None:
    await storage.write(insert_image)
    await storage.write(insert_user, "ada")


@pytest.fixture
async def dispatcher(storage: Storage, bus: MemoryBus) -> AsyncIterator[Dispatcher]:
    made = Dispatcher(storage, bus, by="test")
    yield made
    await made.stop()


async def kernel(storage: Storage, kernel_id: str) -> Kernel:
    def read(conn: Connection) -> Kernel:
        return kernels.where(conn, tables.kernels.c.id == kernel_id)[0]

    return await storage.read(read)


async def blocked_since(storage: Storage, session_id: str) -> float | None:
    def read(conn: Connection) -> float | None:
        sessions = tables.sessions
        return conn.scalar(select(sessions.c.blocked_since).where(sessions.c.id == session_id))

    return await storage.read(read)


def change(conn: Connection, /, table: str, row_id: str, **values: Any) -> None:
    rows = tables.metadata.tables[table]
    conn.execute(update(rows).where(rows.c.id == row_id).values(**values))


def plan_now(conn: Connection) -> Plan:
    return plan(read_picture(conn))


async def test_a_pending_kernel_is_bound_and_says_nothing_more(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    await storage.write(insert_host, "a")
    await storage.write(
        insert_session,
        "s1",
        {"status_info": Reason.RETRYING, "status_data": {"x": 1}, "next_try_at": 1.0, "calls": 3},
        blocked_since=5.0,
    )
    assert await dispatcher.run_once() == 1
    found = await kernel(storage, "s1-0")
    assert (found.status, found.agent_id) == (KernelStatus.SCHEDULED, "a")
    assert (found.status_info, found.status_data, found.calls) == (None, None, 0)
    assert found.next_try_at is None
    assert found.changed_at > 0
    assert await blocked_since(storage, "s1") is None
    log = await storage.read(history, "kernel", "s1-0")
    assert (log[-1].target, log[-1].by) == ("SCHEDULED", "test")
    assert await dispatcher.run_once() == 0


async def test_what_fits_nowhere_says_why_and_keeps_since_when(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    await storage.write(insert_host, "a")
    for session_id in ("s1", "s2", "s3"):
        await storage.write(insert_session, session_id)
    assert await dispatcher.run_once() == 1
    second, third = await kernel(storage, "s2-0"), await kernel(storage, "s3-0")
    assert second.status_info is Reason.NO_FREE_SLOTS
    assert second.status_data == {"asked": ONE.to_json(), "candidates": 1}
    assert third.status_info is Reason.IN_LINE
    since = await blocked_since(storage, "s2")
    assert since is not None
    await dispatcher.run_once()
    assert await blocked_since(storage, "s2") == since
    assert await blocked_since(storage, "s3") is None


async def test_every_cause_is_told_where_no_agent_is_suitable(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    until = await storage.read(now) + 300
    await storage.write(insert_host, "lost", status=AgentStatus.LOST)
    await storage.write(insert_host, "shut", cordoned=True)
    await storage.write(insert_host, "arm", architecture="arm64")
    await storage.write(insert_host, "small", Slots(1))
    await storage.write(insert_host, "full")
    await storage.write(insert_host, "gpu", scaling_group="gpu")
    await storage.write(insert_host, "gone", status=AgentStatus.RETIRED)
    await storage.write(avoid, "full", until)
    await storage.write(avoid, "arm", 1.0)
    await storage.write(insert_session, "s1", scaling_group="default")
    assert await dispatcher.run_once() == 0
    found = await kernel(storage, "s1-0")
    assert found.status_info is Reason.NO_SUITABLE_AGENT
    assert found.status_data is not None
    assert found.status_data["agents"] == {
        "notUp": 1, "cordoned": 1, "architecture": 1, "tooSmall": 1, "avoided": 1,
        "scalingGroup": 1,
    }  # fmt: skip
    assert found.status_data["avoided"][0]["failure"]["class"] == "no-space"


async def test_agents_with_the_image_are_preferred_then_those_that_pull_less(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    for agent_id in ("a", "b", "c"):
        await storage.write(insert_host, agent_id, TWO)
    await storage.write(hold_image, "c")
    await storage.write(
        insert_session, "s0", {"status": KernelStatus.PULLING, "agent_id": "a"}, owner="bob"
    )
    for session_id in ("s1", "s2", "s3"):
        await storage.write(insert_session, session_id)
    await dispatcher.run_once()
    agents = [(await kernel(storage, f"{each}-0")).agent_id for each in ("s1", "s2", "s3")]
    assert agents == ["c", "c", "b"]


async def test_a_kernel_that_pulls_takes_slots_and_a_session_but_no_quota(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    await storage.write(insert_host, "a", TWO)
    await storage.write(insert_user, "bob", Quota(cpu=ONE.cpu), max_sessions=2)
    pulling = {"status": KernelStatus.PULLING, "agent_id": "a"}
    await storage.write(insert_session, "s0", pulling, owner="bob")
    await storage.write(insert_session, "s1", owner="bob")
    await storage.write(insert_session, "s2", owner="bob")
    assert await dispatcher.run_once() == 1
    found = await kernel(storage, "s2-0")
    assert found.status_info is Reason.USER_SESSIONS_EXCEEDED
    assert found.status_data == {"limit": 2, "active": 2}


async def test_a_lowered_number_of_sessions_lets_those_that_began_go_on(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    await storage.write(insert_host, "a", TWO + TWO)
    await storage.write(insert_user, "bob", max_sessions=1)
    running = {"status": KernelStatus.RUNNING, "agent_id": "a"}
    prepared = {"status": KernelStatus.PREPARED, "agent_id": "a"}
    await storage.write(insert_session, "s0", running, owner="bob")
    await storage.write(insert_session, "s1", prepared, {}, owner="bob")
    assert await dispatcher.run_once() == 1
    assert (await kernel(storage, "s1-1")).status is KernelStatus.SCHEDULED


async def test_who_waited_long_gets_the_room_that_small_ones_would_have_taken(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    await storage.write(insert_host, "a", TWO)
    await storage.write(
        insert_session, "s0", {"status": KernelStatus.RUNNING, "agent_id": "a"}, owner="eve"
    )
    long_ago = await storage.read(now) - 61
    await storage.write(insert_session, "large", {"slots": TWO}, blocked_since=long_ago)
    await storage.write(insert_session, "small", owner="bob")
    assert await dispatcher.run_once() == 0
    small = await kernel(storage, "small-0")
    assert small.status_data is not None
    assert small.status_data["heldFor"] == "large"
    await storage.write(change, "kernels", "s0-0", status=KernelStatus.TERMINATED, ended_at=1.0)
    assert await dispatcher.run_once() == 1
    assert (await kernel(storage, "large-0")).status is KernelStatus.SCHEDULED
    small = await kernel(storage, "small-0")
    assert small.status_data is not None
    assert "heldFor" not in small.status_data


async def test_the_rest_of_a_session_is_placed_or_the_whole_is_released(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    prepared = {"status": KernelStatus.PREPARED, "agent_id": "a", "image_id": "sha256:1"}
    await storage.write(insert_host, "a")
    await storage.write(insert_host, "b")
    await storage.write(insert_session, "s1", prepared, {})
    assert await dispatcher.run_once() == 1
    assert (await kernel(storage, "s1-1")).agent_id == "b"

    await storage.write(change, "kernels", "s1-1", status=KernelStatus.PENDING, agent_id=None)
    await storage.write(change, "agents", "b", status=AgentStatus.LOST)
    await storage.write(insert_host, "c", cordoned=True)
    await storage.write(
        insert_session, "s2", {"status": KernelStatus.RUNNING, "agent_id": "c"}, owner="bob"
    )
    await storage.write(change, "agents", "c", cordoned=False)
    await storage.write(insert_session, "s3", owner="bob")
    assert await dispatcher.run_once() == 0
    first = await kernel(storage, "s1-0")
    assert (first.status, first.agent_id, first.image_id) == (KernelStatus.PENDING, None, None)
    assert first.status_info is Reason.NO_FREE_SLOTS
    assert await dispatcher.run_once() == 1, "its slots are there for others"
    assert (await kernel(storage, "s3-0")).agent_id == "a"


async def test_nothing_is_released_where_a_container_may_be(
    storage: Storage, dispatcher: Dispatcher
) -> None:
    creating = {"status": KernelStatus.CREATING, "agent_id": "a"}
    prepared = {"status": KernelStatus.PREPARED, "agent_id": "a"}
    await storage.write(insert_host, "a", TWO)
    await storage.write(insert_session, "s1", creating, prepared, {})
    await dispatcher.run_once()
    assert (await kernel(storage, "s1-1")).status is KernelStatus.PREPARED
    assert (await kernel(storage, "s1-2")).status_info is Reason.NO_FREE_SLOTS


ACTS: dict[str, Any] = {
    "its agent is lost": ("agents", "a", {"status": AgentStatus.LOST}),
    "its agent is cordoned": ("agents", "a", {"cordoned": True}),
    "its agent shrank": ("agents", "a", {"slots": Slots(1).to_json()}),
    "its agent changed groups": ("agents", "a", {"scaling_group": "gpu"}),
    "its owner may have no sessions": ("users", "ada", {"max_sessions": 0}),
    "its owner may have fewer slots": ("users", "ada", {"max_cpu": 1}),
    "its next try is later": ("kernels", "s1-0", {"next_try_at": 1e12}),
    "its image is another": ("kernels", "s1-0", {"root_digest": "sha256:other"}),
    "a sibling ended": ("kernels", "s1-1", {"status": KernelStatus.ERROR, "ended_at": 1.0}),
    "a sibling waits longer": ("kernels", "s1-1", {"next_try_at": 1e12}),
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_plan_that_is_no_longer_true_binds_nothing(storage: Storage, act: str) -> None:
    await storage.write(change, "users", "ada", scaling_groups=["default"])
    await storage.write(insert_host, "a", TWO)
    await storage.write(insert_session, "s1", {}, {})
    found = await storage.read(plan_now)
    table, row_id, values = ACTS[act]
    await storage.write(change, table, row_id, **values)
    assert await storage.write(bind, found.bindings, by="test") == []
    assert (await kernel(storage, "s1-0")).status is KernelStatus.PENDING


async def test_an_agent_that_is_avoided_by_now_takes_nothing(storage: Storage) -> None:
    await storage.write(insert_host, "a")
    await storage.write(insert_session, "s1")
    found = await storage.read(plan_now)
    await storage.write(avoid, "a", await storage.read(now) + 300, DIGEST)
    assert await storage.write(bind, found.bindings, by="test") == []


async def test_a_plan_is_carried_out_once(storage: Storage) -> None:
    await storage.write(insert_host, "a", TWO)
    await storage.write(insert_session, "s1")
    found = await storage.read(plan_now)
    assert await storage.write(bind, found.bindings, by="test") == ["s1"]
    assert await storage.write(bind, found.bindings, by="other") == []


async def test_it_is_rung_by_what_changes_and_by_what_becomes_due(
    storage: Storage, bus: MemoryBus
) -> None:
    rounds = asyncio.Queue[int]()

    def observe(seconds: float, waiting: int, held: Sequence[float]) -> None:
        assert seconds >= 0
        assert not held
        rounds.put_nowait(waiting)

    async def until(waiting: int) -> None:
        while await rounds.get() != waiting:
            pass

    dispatcher = Dispatcher(storage, bus, by="test", period=3600, observe=observe)
    doorbells = Doorbells(bus, [dispatcher.loop], {})
    await dispatcher.start()
    doorbells.start()
    doorbells.start()
    try:
        await within(until(0))
        await storage.write(insert_session, "s1")
        await channels.ring(bus)
        await within(until(1))
        await storage.write(insert_host, "a", TWO)
        await bus.publish(FLEET_CHANGED, Message("", "changed", {}, "changed"))
        await within(until(0))
        due = await storage.read(now) + 0.2
        await storage.write(insert_session, "s2", {"next_try_at": due})
        await channels.ring(bus)
        await within(until(1))
        await within(until(0))
        assert (await kernel(storage, "s2-0")).status is KernelStatus.SCHEDULED
    finally:
        await doorbells.stop()
        await dispatcher.stop()
        await dispatcher.stop()
    assert not dispatcher.loop.running


async def test_whoever_follows_hears_that_something_changed(
    storage: Storage, bus: MemoryBus, dispatcher: Dispatcher
) -> None:
    await storage.write(insert_session, "s1")
    async with bus.subscribe(channels.CHANGED) as subscription:
        await dispatcher.run_once()
        await within(anext(aiter(subscription)))
        await dispatcher.run_once()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(aiter(subscription))
