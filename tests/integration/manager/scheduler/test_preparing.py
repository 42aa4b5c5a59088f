"""Sessions against preparations of their images, on real databases."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence

import pytest
from rig.queues import (
    DIGEST,
    ONE,
    insert_host,
    insert_image,
    insert_session,
    insert_sessions,
    insert_user,
)
from rig.rows import insert_task
from sqlalchemy import Connection, select, update

from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.gate import kernels as bound_kernels
from wharfinger.manager.gate import preparations
from wharfinger.manager.images import items
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.scheduler.binding import bind
from wharfinger.manager.scheduler.decisions import Binding
from wharfinger.manager.scheduler.dispatcher import Dispatcher
from wharfinger.manager.scheduler.picture import WaitingSession
from wharfinger.manager.scheduler.planning import plan
from wharfinger.manager.scheduler.reading import read_picture
from wharfinger.manager.sessions import endings, kernels
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.opening import open_storage
from wharfinger.manager.storage.port import Storage

RACES = 200 if os.environ.get("WHARFINGER_TEST_EXTENT") == "full" else 50
IMAGE = ImageKeys("h.test/image:v1", frozenset({DIGEST}))
OTHER_TAG = ImageKeys("h.test/image:v2", frozenset({DIGEST}))


class Seen:
    """What a dispatcher told of the sessions that had been held back."""

    def __init__(self) -> None:
        self.held: list[float] = []

    def observe(self, _seconds: float, _waiting: int, held: Sequence[float]) -> None:
        self.held += held


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture(autouse=True)
async def _a_task_with_an_item_on_each_of_two_agents(storage: Storage) -> None:
    await storage.write(_begin)


@pytest.fixture
async def dispatcher(storage: Storage, seen: Seen) -> AsyncIterator[Dispatcher]:
    bus = MemoryBus()
    made = Dispatcher(storage, bus, by="test", observe=seen.observe)
    yield made
    await made.stop()
    await bus.close()


def _begin(conn: Connection) -> None:
    insert_user(conn, "ada")
    insert_image(conn)
    insert_task(conn, "t")
    for agent_id in ("a", "b"):
        insert_host(conn, agent_id, ONE)
    wanted = [NewItem(each, IMAGE.reference, DIGEST) for each in ("a", "b")]
    items.add(conn, "t", wanted, by="test")


def item_of(conn: Connection, agent_id: str) -> str:
    return next(item.id for item in items.of_task(conn, "t") if item.agent_id == agent_id)


def prepare(conn: Connection, agent_id: str, image: ImageKeys = IMAGE) -> bool:
    """As an unload begins: not under a kernel that is bound to what may be its image."""
    preparations.lock(conn, [agent_id])
    if any(each.keys.meets(image) for each in bound_kernels.bound(conn, [agent_id])):
        return False
    return preparations.begin(conn, item_of(conn, agent_id), PreparationKind.UNLOAD, image)


def release(conn: Connection, agent_id: str) -> None:
    preparations.release(conn, [item_of(conn, agent_id)])


def end(conn: Connection, session_id: str) -> None:
    endings.end(
        conn, session_id, KernelStatus.CANCELLED, reason="asked", by="test", info=Reason.FAILED
    )


async def kernel(storage: Storage) -> Kernel:
    def read(conn: Connection) -> Kernel:
        return kernels.where(conn, tables.kernels.c.id == "s-0")[0]

    return await storage.read(read)


async def held_since(storage: Storage) -> float | None:
    def read(conn: Connection) -> float | None:
        sessions = tables.sessions
        return conn.scalar(select(sessions.c.held_since).where(sessions.c.id == "s"))

    return await storage.read(read)


async def test_of_a_binding_and_a_preparation_at_once_one_is_left(
    storage: Storage, storage_url: str
) -> None:
    def queue(conn: Connection) -> Sequence[WaitingSession]:
        insert_sessions(conn, [(f"s{number:03}", "ada", ({},), {}) for number in range(RACES)])
        return read_picture(conn).sessions

    def begin_anew(conn: Connection, session_id: str) -> None:
        end(conn, session_id)
        release(conn, "a")

    other = open_storage(storage_url)
    try:
        for number, session in enumerate(await storage.write(queue)):
            binding = storage.write(bind, [Binding(session, ["a"])], by="test")
            preparing = other.write(prepare, "a", OTHER_TAG if number % 2 else IMAGE)
            if number % 4 < 2:
                bound, began = await asyncio.gather(binding, preparing)
            else:
                began, bound = await asyncio.gather(preparing, binding)
            assert bool(bound) is not began
            await storage.write(begin_anew, session.id)
    finally:
        await other.close()


async def test_what_was_planned_before_a_preparation_began_is_not_bound(storage: Storage) -> None:
    await storage.write(insert_session, "s")
    found = await storage.read(lambda conn: plan(read_picture(conn)))
    assert [each.agent_ids for each in found.bindings] == [("a",)]
    await storage.write(prepare, "a", OTHER_TAG)
    assert await storage.write(bind, found.bindings, by="test") == []
    await storage.write(release, "a")
    assert await storage.write(bind, found.bindings, by="test") == ["s"]


async def test_a_session_says_what_it_waits_for_and_starts_when_the_first_host_is_ready(
    storage: Storage, dispatcher: Dispatcher, seen: Seen
) -> None:
    for agent_id in ("a", "b"):
        await storage.write(prepare, agent_id)
    await storage.write(insert_session, "s")
    assert await dispatcher.run_once() == 0
    waiting = await kernel(storage)
    assert waiting.status_info is Reason.PENDING_IMAGE_PREPARATION
    assert waiting.status_data is not None
    assert (waiting.status_data["taskId"], waiting.status_data["agentId"]) == ("t", "a")
    since = await held_since(storage)
    assert since is not None

    def get_on(conn: Connection) -> bool:
        conn.execute(update(tables.items).values(bytes_done=5, eta_seconds=7.0))
        found = plan(read_picture(conn))
        return bool(found.words or found.held or found.blocked or found.unblocked)

    assert not await storage.write(get_on), "that it gets on is no news to the scheduler"
    await storage.write(release, "b")
    assert await dispatcher.run_once() == 1
    started = await kernel(storage)
    assert (started.agent_id, started.status_info) == ("b", None)
    assert await held_since(storage) is None
    assert len(seen.held) == 1
    assert seen.held[0] >= 0


async def test_the_reason_goes_to_another_preparation_and_to_want_of_room(
    storage: Storage, dispatcher: Dispatcher, seen: Seen
) -> None:
    await storage.write(insert_session, "s")
    for agent_id in ("a", "b"):
        await storage.write(prepare, agent_id)
    await dispatcher.run_once()
    since = await held_since(storage)
    await storage.write(release, "a")
    full = {"status": KernelStatus.RUNNING, "agent_id": "a"}
    await storage.write(insert_session, "other", full)
    await dispatcher.run_once()
    waiting = await kernel(storage)
    assert waiting.status_data is not None
    assert waiting.status_data["agentId"] == "b"
    await storage.write(insert_session, "third", full | {"agent_id": "b"})
    await dispatcher.run_once()
    assert (await kernel(storage)).status_info is Reason.NO_FREE_SLOTS
    assert await held_since(storage) == since, "it counts from the first time"
    assert not seen.held
