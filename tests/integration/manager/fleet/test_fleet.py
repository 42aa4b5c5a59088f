"""Agents as managers see them: joining, reporting, silent, back, removed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from cryptography.fernet import Fernet
from rig.people import ROOT
from rig.queues import insert_session
from rig.rows import insert_agent
from rig.tasks import UnreliableStorage, eventually
from sqlalchemy import Connection

from wharfinger.contracts.ingest import (
    Capacity,
    EngineFacts,
    Inventory,
    InventoryImage,
    Registration,
    Report,
)
from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.errors import Conflict, StaleIncarnation, Unauthenticated, WharfingerError
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.access.service import Access
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.fleet.service import Fleet
from wharfinger.manager.storage.errors import StorageUnavailable
from wharfinger.manager.storage.port import Storage

ENGINE = EngineFacts(kind="docker", version="20.10.24", store="classic")
DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64


@dataclass
class Clock:
    """A steady clock that stands until told."""

    at: float = 100.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Process:
    """One process of an agent, as its link would speak."""

    fleet: Fleet
    incarnation: str
    credential: str
    begun: Any = field(default_factory=lambda: count(1))

    async def report(self, version: str = "v1", *images: InventoryImage, **more: Any) -> None:
        listed = Inventory(version=version, images=images) if images or version == "v1" else None
        more.setdefault("containers", ())
        await self.fleet.report(
            Report(
                incarnation=self.incarnation,
                begun=next(self.begun),
                engine=ENGINE,
                inventory_version=version,
                inventory=listed,
                **more,
            ),
            self.credential,
        )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def fleet(storage: Storage, clock: Clock) -> AsyncIterator[Fleet]:
    bus = MemoryBus()
    fleet = Fleet(
        storage,
        bus,
        Vault(Fernet.generate_key()),
        manager_id="m1",
        lost_after=0.05,
        steady_clock=clock,
    )
    yield fleet
    await fleet.stop()
    await bus.close()


@pytest.fixture
async def join_token(storage: Storage) -> str:
    return (await Access(storage).create_join_token("tests")).token


def said(agent_id: str = "a-1", incarnation: str = "i1") -> Registration:
    return Registration(
        agent_id=agent_id,
        scaling_group="a",
        incarnation=incarnation,
        address="http://127.0.0.1:1",
        call_token="call-me",
        version="0",
        os="linux",
        architecture="amd64",
        engine=ENGINE,
    )


async def joined(fleet: Fleet, join_token: str, agent_id: str = "a-1") -> Process:
    answer = await fleet.register(said(agent_id), join_token)
    assert answer.credential is not None
    return Process(fleet, "i1", answer.credential)


async def status(fleet: Fleet, agent_id: str = "a-1") -> AgentStatus:
    return (await fleet.agent(agent_id)).status


async def silent(fleet: Fleet, clock: Clock) -> list[str]:
    """Be a manager that listened for longer than an agent may be silent."""
    await fleet.note_silence()
    lost: list[str] = []
    for _ in range(400):
        clock.at += fleet_period(fleet)
        lost += await fleet.note_silence()
        if lost:
            break
    return lost


def fleet_period(fleet: Fleet) -> float:
    return fleet._lost_after / 4


async def test_an_agent_is_up_once_its_first_listing_is_reconciled(
    fleet: Fleet, join_token: str
) -> None:
    process = await joined(fleet, join_token)
    assert await status(fleet) is AgentStatus.JOINING
    await process.report("")
    assert await status(fleet) is AgentStatus.JOINING
    await process.report("v1")
    assert await status(fleet) is AgentStatus.UP
    assert [row.target for row in await fleet.transitions("a-1")] == ["JOINING", "UP"]


async def test_an_agent_whose_engine_is_dead_is_up_and_says_so(
    fleet: Fleet, join_token: str
) -> None:
    process = await joined(fleet, join_token)
    dead = ENGINE.model_copy(update={"problem": "connection refused"})
    report = Report(incarnation="i1", begun=1, engine=dead)
    await fleet.report(report, process.credential)
    view = await fleet.agent("a-1")
    assert (view.status, view.engine.problem) == (AgentStatus.UP, "connection refused")

    unknown = EngineFacts(kind="", version="", store="", problem="still refused")
    report = Report(incarnation="i1", begun=2, engine=unknown)
    await fleet.report(report, process.credential)
    view = await fleet.agent("a-1")
    assert view.engine == ENGINE.model_copy(update={"problem": "still refused"})


async def test_a_wrong_bearer_neither_joins_nor_reports(fleet: Fleet, join_token: str) -> None:
    with pytest.raises(Unauthenticated):
        await fleet.register(said(), "no-such-token")
    await joined(fleet, join_token)
    with pytest.raises(Unauthenticated):
        await fleet.report(Report(incarnation="i1", begun=1), "no-such-credential")


async def test_a_name_in_use_is_not_taken_over_by_a_join_token(
    fleet: Fleet, join_token: str
) -> None:
    process = await joined(fleet, join_token)
    again = await fleet.register(said(incarnation="i2"), join_token)
    assert again.credential != process.credential  # it never reported: its answer was lost
    assert again.credential is not None
    await Process(fleet, "i2", again.credential).report()
    with pytest.raises(Conflict, match="agent rm a-1"):
        await fleet.register(said(incarnation="i3"), join_token)


async def test_a_new_process_makes_the_old_one_stale(fleet: Fleet, join_token: str) -> None:
    old = await joined(fleet, join_token)
    await old.report()
    answer = await fleet.register(said(incarnation="i2"), old.credential)
    assert answer.credential is None
    with pytest.raises(StaleIncarnation):
        await old.report()
    await Process(fleet, "i2", old.credential).report()


async def test_a_credential_is_for_its_own_agent(fleet: Fleet, join_token: str) -> None:
    process = await joined(fleet, join_token)
    with pytest.raises(Conflict, match="a-1"):
        await fleet.register(said("a-2"), process.credential)


async def test_an_agent_is_not_up_before_it_has_told_its_containers(
    fleet: Fleet, join_token: str
) -> None:
    process = await joined(fleet, join_token)
    await process.report(containers=None)
    assert await status(fleet) is AgentStatus.JOINING
    await process.report(containers=())
    assert await status(fleet) is AgentStatus.UP


async def test_what_sessions_may_use_is_what_the_agent_last_said(
    fleet: Fleet, join_token: str
) -> None:
    process = await joined(fleet, join_token)
    assert (await fleet.agent("a-1")).slots == {"cpu": 0.0, "mem": 0, "gpu": 0}
    await process.report(capacity=Capacity(cpu=2500, mem=1024, gpu=1))
    await process.report()
    assert (await fleet.agent("a-1")).slots == {"cpu": 2.5, "mem": 1024, "gpu": 1}


async def test_the_disk_is_what_the_agent_last_said_small_changes_left_out(
    fleet: Fleet, join_token: str
) -> None:
    process = await joined(fleet, join_token)
    assert (await fleet.agent("a-1")).disk is None
    for free, kept in ((10_000, 10_000), (9_950, 10_000), (9_800, 9_800)):
        await process.report(disk=DiskSpace(free=free, total=20_000))
        assert (await fleet.agent("a-1")).disk == {"free": kept, "total": 20_000}
    await process.report()
    assert (await fleet.agent("a-1")).disk is None


async def test_all_agents_are_told_the_same_cluster(fleet: Fleet, join_token: str) -> None:
    first = await fleet.register(said("a-1"), join_token)
    second = await fleet.register(said("a-2"), join_token)
    assert first.cluster_id == second.cluster_id != ""


async def test_an_agent_with_running_sessions_is_not_retired_unless_it_is_lost(
    fleet: Fleet, join_token: str, clock: Clock, storage: Storage
) -> None:
    process = await joined(fleet, join_token)
    await process.report()
    here = {"status": KernelStatus.RUNNING, "agent_id": "a-1"}
    await storage.write(insert_session, "s-running", here)
    with pytest.raises(Conflict, match="sessions run on agent a-1") as refused:
        await fleet.retire("a-1", who=ROOT)
    assert refused.value.detail["sessions"] == ["s-running"]
    await silent(fleet, clock)
    assert (await fleet.retire("a-1", who=ROOT)).status is AgentStatus.RETIRED


async def test_a_silent_agent_is_lost_and_back_when_it_reports(
    fleet: Fleet, join_token: str, clock: Clock
) -> None:
    process = await joined(fleet, join_token)
    await process.report()
    assert await silent(fleet, clock) == ["a-1"]
    assert await status(fleet) is AgentStatus.LOST
    await process.report("v1")
    assert await status(fleet) is AgentStatus.UP


async def test_a_manager_that_could_not_listen_blames_nobody(
    fleet: Fleet, join_token: str, clock: Clock
) -> None:
    process = await joined(fleet, join_token)
    await process.report()
    await fleet.note_silence()
    clock.at += 1000.0  # it slept
    assert await fleet.note_silence() == []
    clock.at += fleet_period(fleet)
    assert await fleet.note_silence() == []


async def test_a_manager_whose_database_was_gone_blames_nobody(
    fleet: Fleet, storage: Storage, join_token: str, clock: Clock
) -> None:
    await (await joined(fleet, join_token)).report()
    await fleet.note_silence()
    for _ in range(4):  # from now on it has listened for long enough
        await fleet.note_silence()
        clock.at += fleet_period(fleet)
    unreliable = UnreliableStorage(storage)
    unreliable.down = True
    fleet._storage = unreliable
    with pytest.raises(StorageUnavailable):
        await fleet.note_silence()
    unreliable.down = False
    await eventually(lambda: not_heard(fleet))
    assert await fleet.note_silence() == []
    assert await silent(fleet, clock) == ["a-1"]


async def not_heard(fleet: Fleet) -> bool:
    """Whether the one agent has been silent for too long."""
    return (await fleet.agent("a-1")).heard_seconds_ago > fleet._lost_after


async def test_silence_is_noted_however_short_the_limit_is(
    storage: Storage, join_token: str
) -> None:
    bus = MemoryBus()
    fleet = Fleet(storage, bus, Vault(Fernet.generate_key()), manager_id="m1", lost_after=1.0)
    await (await joined(fleet, join_token)).report()
    await fleet.start()

    async def lost() -> bool:
        return await status(fleet) is AgentStatus.LOST

    try:
        await eventually(lost)
    finally:
        await fleet.stop()
        await bus.close()


async def test_agents_of_large_fleets_report_less_often(
    fleet: Fleet, storage: Storage, join_token: str
) -> None:
    def insert(conn: Connection, first: int, last: int) -> None:
        for number in range(first, last):
            insert_agent(conn, f"n-{number}")

    process = await joined(fleet, join_token)
    seconds = []
    for first, last in ((0, 10), (10, 599), (599, 1000)):
        await storage.write(insert, first, last)
        await fleet.note_silence()
        report = Report(incarnation="i1", begun=1)
        seconds.append((await fleet.report(report, process.credential)).report_seconds)
    assert seconds == [1.0, 2.0, 3.0]


async def test_the_mapping_is_what_the_agent_last_listed(fleet: Fleet, join_token: str) -> None:
    process = await joined(fleet, join_token)
    one = InventoryImage(
        image_id="sha256:1",
        tags=("h/a:v1", "h/b:v1"),
        digests=(f"h/a@{DIGEST}", f"h/c@{OTHER}"),
        size=5,
    )
    await process.report("v2", one)
    rows = {row.reference: row.root_digest for row in await fleet.agent_images("a-1", who=ROOT)}
    assert rows == {"h/a:v1": DIGEST, "h/b:v1": DIGEST, f"h/c@{OTHER}": OTHER}

    two = InventoryImage(image_id="sha256:2", tags=("h/a:v1",), digests=(f"h/a@{OTHER}",), size=6)
    await process.report("v3", two)
    held = await fleet.agent_images("a-1", who=ROOT)
    assert [(r.reference, r.root_digest, r.image_id, r.size) for r in held] == [
        ("h/a:v1", OTHER, "sha256:2", 6)
    ]

    await process.report("v1")
    assert await fleet.agent_images("a-1", who=ROOT) == []


async def test_an_image_loaded_without_a_digest_is_listed_without_one(
    fleet: Fleet, join_token: str
) -> None:
    process = await joined(fleet, join_token)
    await process.report("v2", InventoryImage(image_id="sha256:1", tags=("h/a:v1",)))
    assert [row.root_digest for row in await fleet.agent_images("a-1", who=ROOT)] == [None]


async def test_a_removed_agent_is_refused_and_its_images_are_gone(
    fleet: Fleet, join_token: str
) -> None:
    process = await joined(fleet, join_token)
    await process.report("v2", InventoryImage(image_id="sha256:1", tags=("h/a:v1",)))
    view = await fleet.retire("a-1", who=ROOT)
    assert view.status is AgentStatus.RETIRED
    assert await fleet.agents() == []
    assert await fleet.agent_images("a-1", who=ROOT) == []
    for attempt in (process.report(), fleet.register(said(), process.credential)):
        with pytest.raises(WharfingerError) as refused:
            await attempt
        assert refused.value.code == "forbidden"
    await joined(fleet, join_token)  # the name is free again
