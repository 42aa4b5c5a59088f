"""No kernel waits for an agent that is away, or for an end that cannot come."""

from typing import Any

import pytest
from rig.queues import insert_host, insert_session
from sqlalchemy import Connection, delete, select, update

from wharfinger.domain.failures import FailureClass
from wharfinger.domain.sessions import BOUND, Reason
from wharfinger.domain.states import KERNEL_TRANSITIONS, AgentStatus, KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.fleet import agents
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.sweep import Sweep, sweep
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage

GRACE = 600.0
AWAY = {"agent_id": "a-1", "image_id": "sha256:1"}
WITH_CONTAINER: tuple[dict[str, Any], ...] = (
    AWAY | {"status": KernelStatus.CREATING},
    AWAY | {"status": KernelStatus.RUNNING},
    AWAY
    | {
        "status": KernelStatus.TERMINATING,
        "ends_as": KernelStatus.TERMINATED,
        "status_info": Reason.ENDED_BY_USER,
    },
)


def cluster(conn: Connection, *sessions: dict[str, Any]) -> None:
    """Agent `a-1` is LOST, `a-2` is UP; a session for each kernel."""
    at = now(conn)
    insert_host(conn, "a-1", heard_at=at - 20)
    insert_host(conn, "a-2", heard_at=at)
    assert agents.lose_silent(conn, 15, by="test") == ["a-1"]
    for number, kernel in enumerate(sessions):
        insert_session(conn, f"s{number}", kernel | {"changed_at": at})


def every(conn: Connection) -> list[Kernel]:
    return kernels.where(conn)


def age(conn: Connection, seconds: float) -> None:
    """All that is remembered is older."""
    for table, column in ((tables.transitions, "at"), (tables.agents, "heard_at")):
        conn.execute(update(table).values({column: table.c[column] - seconds}))


@pytest.mark.parametrize("status", BOUND)
async def test_what_has_no_container_yet_leaves_a_lost_agent(
    storage: Storage, status: KernelStatus
) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, AWAY | {"status": status})
        assert sweep(conn, GRACE, by="test")
        [kernel] = every(conn)
        assert (kernel.status, kernel.agent_id) == (KernelStatus.PENDING, None)
        assert kernel.status_info is Reason.AGENT_LOST
        assert not sweep(conn, GRACE, by="test")

    await storage.write(story)


async def test_what_may_have_a_container_waits_for_the_agent_and_says_so_once(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, *WITH_CONTAINER)
        assert sweep(conn, GRACE, by="test")
        found = every(conn)
        assert [kernel.status for kernel in found] == [row["status"] for row in WITH_CONTAINER]
        assert {kernel.status_info for kernel in found} == {Reason.AGENT_LOST}
        for kernel in found:
            assert kernel.status_data is not None
            assert kernel.status_data.keys() >= {"agentId", "since", "until"}
        assert not sweep(conn, GRACE, by="test")

    await storage.write(story)


async def test_an_agent_that_is_back_is_lost_no_longer(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, *WITH_CONTAINER)
        sweep(conn, GRACE, by="test")
        conn.execute(update(tables.agents).values(status=AgentStatus.UP))
        assert sweep(conn, GRACE, by="test")
        assert [kernel.status_info for kernel in every(conn)] == [None, None, Reason.ENDED_BY_USER]
        assert not sweep(conn, GRACE, by="test")

    await storage.write(story)


async def test_after_the_grace_they_end(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, *WITH_CONTAINER)
        sweep(conn, GRACE, by="test")
        age(conn, GRACE)
        assert sweep(conn, GRACE, by="test")
        creating, running, terminating = every(conn)
        for kernel in (creating, running):
            assert (kernel.status, kernel.status_info) == (KernelStatus.ERROR, Reason.AGENT_LOST)
            assert kernel.failure is not None
            assert kernel.failure.failure_class is FailureClass.AGENT_LOST
        assert terminating.status is KernelStatus.TERMINATED
        assert terminating.status_info is Reason.ENDED_BY_USER
        assert not sweep(conn, GRACE, by="test")

    await storage.write(story)


async def test_the_grace_begins_when_a_manager_could_listen(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        at = now(conn)
        insert_host(conn, "a-1", heard_at=at - 10 * GRACE)
        insert_session(conn, "s", AWAY | {"status": KernelStatus.RUNNING, "changed_at": at})
        agents.lose_silent(conn, 15, by="test")
        sweep(conn, GRACE, by="test")
        assert every(conn)[0].status is KernelStatus.RUNNING

    await storage.write(story)


@pytest.mark.parametrize("gone", ["retired", "deleted"])
async def test_an_agent_that_was_removed_has_no_grace(storage: Storage, gone: str) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, *WITH_CONTAINER, AWAY | {"status": KernelStatus.PREPARED})
        if gone == "retired":
            agents.retire(conn, "a-1", by="test")
        else:
            conn.execute(delete(tables.agents).where(tables.agents.c.id == "a-1"))
        assert sweep(conn, GRACE, by="test")
        assert [kernel.status for kernel in every(conn)] == [
            KernelStatus.ERROR,
            KernelStatus.ERROR,
            KernelStatus.TERMINATED,
            KernelStatus.PENDING,
        ]

    await storage.write(story)


async def test_a_session_ends_with_the_one_whose_agent_stayed_away(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        cluster(conn)
        at = {"changed_at": now(conn)}
        running = {"status": KernelStatus.RUNNING, **at}
        insert_session(conn, "s", AWAY | running, {"agent_id": "a-2", **running}, at)
        age(conn, GRACE)
        conn.execute(update(tables.agents).where(tables.agents.c.id == "a-2").values(heard_at=9e9))
        assert sweep(conn, GRACE, by="test")
        assert [kernel.status for kernel in kernels.of_session(conn, "s")] == [
            KernelStatus.ERROR,
            KernelStatus.TERMINATING,
            KernelStatus.ERROR,
        ]

    await storage.write(story)


async def test_a_joining_agent_is_not_up_and_not_lost(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        at = now(conn)
        insert_host(conn, "a-1", status=AgentStatus.JOINING, heard_at=at)
        insert_session(conn, "s0", AWAY | {"status": KernelStatus.PREPARED, "changed_at": at})
        insert_session(conn, "s1", AWAY | {"status": KernelStatus.RUNNING, "changed_at": at})
        assert sweep(conn, GRACE, by="test")
        bound, running = every(conn)
        assert bound.status is KernelStatus.PENDING
        assert (running.status, running.status_info) == (KernelStatus.RUNNING, None)

    await storage.write(story)


async def test_an_engine_that_never_gets_done_ends_nothing_late(storage: Storage) -> None:
    """The agent is UP, but its engine neither makes a container nor ends one."""

    def story(conn: Connection) -> None:
        at = now(conn)
        insert_host(conn, "a-1", heard_at=at)
        long_ago = {"changed_at": at - GRACE - 1}
        for number, kernel in enumerate(WITH_CONTAINER):
            insert_session(conn, f"s{number}", kernel | long_ago)
        assert sweep(conn, GRACE, by="test")
        creating, running, terminating = every(conn)
        assert (creating.status, creating.ends_as) == (
            KernelStatus.TERMINATING,
            KernelStatus.ERROR,
        )
        assert running.status is KernelStatus.RUNNING
        assert terminating.status is KernelStatus.TERMINATED
        left = conn.scalars(select(tables.leftovers.c.kernel_id)).all()
        assert left == ["s2-0"]
        assert not sweep(conn, GRACE, by="test")

    await storage.write(story)


async def test_the_loop_sweeps_and_writes_nothing_when_all_is_well(
    sqlite_storage: Storage,
) -> None:
    bus = MemoryBus()
    loop = Sweep(sqlite_storage, bus, by="test")
    assert not await loop.run_once()
    await sqlite_storage.write(cluster, AWAY | {"status": KernelStatus.PREPARED})
    assert await loop.run_once()
    assert not await loop.run_once()
    await bus.close()


def test_every_state_that_is_no_end_says_who_moves_it_on() -> None:
    told = Sweep.__module__ and sweep.__globals__["__doc__"]
    assert all(f"{status}" in told for status in KERNEL_TRANSITIONS.open)
