"""Two dispatchers on one database, while people create sessions and sessions end."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from rig.queues import ONE, insert_host, insert_image, insert_session, insert_user
from sqlalchemy import Connection, select

from wharfinger.domain.sessions import AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES, Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.scheduler.dispatcher import Dispatcher
from wharfinger.manager.sessions import endings, kernels, occupancy
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.opening import open_storage
from wharfinger.manager.storage.port import Storage

CAPACITY = {f"agent-{number}": Slots(2000 + 1000 * number, 8 * 2**30) for number in range(3)}
RACES = 1000 if os.environ.get("WHARFINGER_TEST_EXTENT") == "full" else 50
QUOTA = Quota(cpu=3000)
"""Ada's; and two sessions at most."""


@pytest.fixture
async def dispatchers(storage: Storage, storage_url: str) -> AsyncIterator[list[Dispatcher]]:
    """Each with a storage of its own, as two managers have."""
    other, bus = open_storage(storage_url), MemoryBus()
    await storage.write(insert_image)
    yield [Dispatcher(each, bus, by=f"manager {each}") for each in (storage, other)]
    await bus.close()
    await other.close()


def bound_of(conn: Connection, session_ids: list[str]) -> list[str]:
    rows = tables.kernels
    return list(
        conn.scalars(
            select(rows.c.session_id)
            .where(
                rows.c.session_id.in_(session_ids),
                rows.c.status.in_(AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES),
            )
            .order_by(rows.c.session_id)
        )
    )


def end(conn: Connection, session_id: str) -> None:
    endings.end(
        conn,
        session_id,
        KernelStatus.CANCELLED,
        reason="asked for",
        by="test",
        info=Reason.ENDED_BY_USER,
    )


def nothing_is_oversold(conn: Connection) -> None:
    for agent_id, taken in occupancy.of_agents(conn).items():
        assert taken.fits(CAPACITY[agent_id]), agent_id
    assert not QUOTA.exceeded_by(occupancy.of_users(conn).get("ada", Slots()))
    assert occupancy.active_sessions(conn).get("ada", 0) <= 2
    for members in kernels.sessions_of(kernels.where(conn)).values():
        assert len({kernel.status is KernelStatus.PENDING for kernel in members}) == 1


async def test_two_users_race_for_the_last_slots_and_one_gets_them(
    storage: Storage, dispatchers: list[Dispatcher]
) -> None:
    await storage.write(insert_host, "a", ONE)
    for user in ("ada", "bob"):
        await storage.write(insert_user, user)
    first, second = dispatchers

    async def come_late(session_id: str, created_at: float) -> None:
        """The older one of two, committed after the younger."""
        await storage.write(insert_session, session_id, owner="bob", created_at=created_at)
        await second.run_once()

    for number in range(RACES):
        both = [f"{number}-ada", f"{number}-bob"]
        await storage.write(insert_session, both[0], owner="ada", created_at=float(number))
        await asyncio.gather(first.run_once(), come_late(both[1], number - 0.5))
        assert len(await storage.read(bound_of, both)) == 1
        for each in both:
            await storage.write(end, each)


async def test_rounds_at_once_oversell_nothing_while_sessions_come_and_go(
    storage: Storage, dispatchers: list[Dispatcher]
) -> None:
    await storage.write(insert_user, "ada", QUOTA, max_sessions=2)
    await storage.write(insert_user, "bob")
    for agent_id, capacity in CAPACITY.items():
        await storage.write(insert_host, agent_id, capacity)

    async def create(owner: str) -> None:
        for number in range(12):
            alike: list[dict[str, Any]] = [{}] * (1 + number % 3)
            await storage.write(insert_session, f"{owner}-{number:02}", *alike, owner=owner)

    async def go_round(dispatcher: Dispatcher) -> None:
        for _ in range(12):
            await dispatcher.run_once()

    async def look_and_end() -> None:
        for number in range(12):
            await storage.read(nothing_is_oversold)
            await storage.write(end, f"bob-{number:02}")

    await asyncio.gather(create("ada"), create("bob"), *map(go_round, dispatchers), look_and_end())
    for dispatcher in dispatchers:
        await dispatcher.run_once()
    await storage.read(nothing_is_oversold)
    assert await storage.read(bound_of, ["ada-00"]), "the oldest has its slots"
