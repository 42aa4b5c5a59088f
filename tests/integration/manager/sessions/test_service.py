"""Creating, listing and ending sessions, on real databases."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from cryptography.fernet import Fernet
from rig.people import ROOT
from rig.queues import insert_host, insert_session, insert_user
from sqlalchemy import Connection, select

from wharfinger.domain.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    UnknownId,
    UnknownRegistry,
    UnknownSelector,
)
from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.access import audit, grants
from wharfinger.manager.access.principal import Principal, Role
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.catalogue import entries, resolved
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.fleet.calls import AgentCalls
from wharfinger.manager.fleet.views import AgentContact
from wharfinger.manager.sessions.bells import SessionBells
from wharfinger.manager.sessions.live import LivePulls
from wharfinger.manager.sessions.logs import KernelLogs
from wharfinger.manager.sessions.requests import KernelRequest, SessionRequest
from wharfinger.manager.sessions.service import Sessions
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.images import PlatformImage, ResolvedImage

ADA = Principal("ada", "ada", Role.USER)
IMAGE = "h.test/image:v1"
REFERENCE = Reference.parse(IMAGE)
DIGEST = "sha256:" + "b" * 64
KERNEL = KernelRequest(IMAGE, Slots(1000, 2**30))
ANY: dict[str, Any] = {"owner_id": None, "statuses": (), "after": None, "limit": 10}


@pytest.fixture
async def sessions(storage: Storage) -> AsyncIterator[Sessions]:
    """For ada, of group `default`, with agents of `default` and `gpu`, and one registry."""

    async def nobody(_: str) -> AgentContact | None:
        return None

    bus, vault = MemoryBus(), Vault(Fernet.generate_key())
    bells, live, calls = SessionBells(storage, bus), LivePulls(bus), AgentCalls(nobody, vault)
    await storage.write(_begin)
    await storage.write(_know)
    async with RegistryClient() as client:
        registries = Registries(storage, vault, client)
        logs = KernelLogs(storage, calls, bells)
        yield Sessions(storage, bus, registries, live, bells, logs)
    await calls.close()


def _begin(conn: Connection) -> None:
    insert_user(conn, "ada", Quota(cpu=4000), scaling_groups=["default"])
    insert_user(conn, ROOT.user_id)
    insert_host(conn, "a-1")
    insert_host(conn, "g-1", scaling_group="gpu")
    conn.execute(
        tables.registries.insert().values(host="h.test", url="http://h.test", created_at=0.0)
    )


def _know(conn: Connection, reference: Reference = REFERENCE) -> None:
    variant = PlatformImage(Platform("linux", "amd64"), DIGEST, DIGEST, ())
    resolved.mean(conn, ResolvedImage(reference, DIGEST, "index", (variant,)))


def _deeds(conn: Connection) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Who did what to what, oldest first."""
    entered = audit.page(conn, limit=10)
    return [(each.actor, each.action, each.target, dict(each.detail)) for each in entered[::-1]]


async def test_a_session_of_a_known_image_is_queued_with_its_digest(
    sessions: Sessions,
) -> None:
    made = await sessions.create(SessionRequest([KERNEL, KERNEL], "work"), owner=ADA)
    assert (made.name, made.owner, made.status) == ("work", "ada", KernelStatus.PENDING)
    for kernel in made.kernels:
        assert (kernel.row.root_digest, kernel.row.status_info) == (DIGEST, None)
        assert [(each.source, each.by) for each in kernel.transitions] == [(None, "user ada")]
    assert (await sessions.show(made.id)).to_json() == made.to_json()
    assert (await sessions.of_kernel(made.kernels[1].row.id)).id == made.id


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_superadmins_session_of_an_image_that_the_catalogue_has_not_waits_to_be_resolved(
    sessions: Sessions, storage: Storage, forgotten: bool
) -> None:
    other = Reference.parse("h.test/other:v1")
    if forgotten:
        await storage.write(_know, other)
        await storage.write(entries.forget, other)
    kernel = KernelRequest(str(other), Slots(1000, 2**30))
    made = await sessions.create(SessionRequest([kernel]), owner=ROOT)
    assert made.status_info == Reason.RESOLVING_IMAGE
    assert made.kernels[0].row.root_digest is None
    assert made.name


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (SessionRequest([KERNEL], scaling_group="nowhere"), UnknownSelector),
        (SessionRequest([KERNEL], scaling_group="gpu"), Forbidden),
        (SessionRequest([KERNEL] * 5), InvalidRequest),
        (SessionRequest([KernelRequest("other.test/a:v1", Slots(1, 1))]), UnknownRegistry),
    ],
)
async def test_a_refused_session_leaves_nothing(
    sessions: Sessions, storage: Storage, asked: SessionRequest, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        await sessions.create(asked, owner=ADA)
    assert not await storage.read(lambda conn: conn.execute(select(tables.sessions)).all())


async def test_an_image_that_is_forgotten_or_not_for_this_user_is_not_there(
    sessions: Sessions, storage: Storage
) -> None:
    texts = []

    async def refused(reference: str = IMAGE) -> None:
        with pytest.raises(FailureError) as caught:
            await sessions.create(
                SessionRequest([KernelRequest(reference, KERNEL.slots)]), owner=ADA
            )
        assert caught.value.failure.failure_class is FailureClass.NOT_FOUND
        texts.append(caught.value.message.replace(reference, IMAGE))

    await refused("h.test/absent:v1")
    await storage.write(grants.grant, "h.test", [], ["others"])
    await refused()
    await storage.write(grants.revoke, "h.test", [], [])
    await storage.write(entries.forget, REFERENCE)
    await refused()
    assert len(set(texts)) == 1
    assert not await storage.read(_deeds)
    assert not await storage.read(lambda conn: conn.execute(select(tables.sessions)).all())


async def test_a_session_keeps_the_digest_of_its_creation_when_the_tag_moves(
    sessions: Sessions, storage: Storage
) -> None:
    made = await sessions.create(SessionRequest([KERNEL]), owner=ADA)
    moved = ResolvedImage(REFERENCE, "sha256:" + "c" * 64, "index", ())
    await storage.write(resolved.mean, moved)
    assert (await sessions.show(made.id)).kernels[0].row.root_digest == DIGEST
    later = await sessions.create(SessionRequest([KERNEL]), owner=ADA)
    assert later.kernels[0].row.root_digest == moved.root_digest
    pinned = KernelRequest(f"h.test/image@{moved.root_digest}", KERNEL.slots)
    made = await sessions.create(SessionRequest([pinned]), owner=ADA)
    assert made.kernels[0].row.root_digest == moved.root_digest


async def test_who_made_and_who_ended_a_session_is_noted_with_whose_it_was(
    sessions: Sessions, storage: Storage
) -> None:
    first = await sessions.create(SessionRequest([KERNEL], "first"), owner=ADA)
    second = await sessions.create(SessionRequest([KERNEL], "second"), owner=ADA)
    third = await sessions.create(SessionRequest([KERNEL], "third"), owner=ADA)
    await sessions.terminate(first.id, who=ADA)
    await sessions.terminate(first.id, who=ROOT)
    await sessions.terminate(second.id, who=ROOT)
    await sessions.cancel(third.id, who=ROOT, forced=True)
    assert await storage.read(_deeds) == [
        ("ada", "session.create", first.id, {"name": "first", "images": [IMAGE]}),
        ("ada", "session.create", second.id, {"name": "second", "images": [IMAGE]}),
        ("ada", "session.create", third.id, {"name": "third", "images": [IMAGE]}),
        ("ada", "session.terminate", first.id, {"name": "first"}),
        ("root", "session.terminate", second.id, {"name": "second", "owner": "ada"}),
        ("root", "session.cancel", third.id, {"name": "third", "owner": "ada", "forced": True}),
    ]


async def test_a_name_is_free_again_once_its_session_has_ended(sessions: Sessions) -> None:
    first = await sessions.create(SessionRequest([KERNEL], "work"), owner=ADA)
    with pytest.raises(Conflict):
        await sessions.create(SessionRequest([KERNEL], "work"), owner=ADA)
    await sessions.terminate(first.id, who=ADA)
    await sessions.create(SessionRequest([KERNEL], "work"), owner=ADA)


async def test_pages_follow_each_other_and_keep_to_the_derived_states(
    sessions: Sessions, storage: Storage
) -> None:
    pending, pulling = {"status": KernelStatus.PENDING}, {"status": KernelStatus.PULLING}

    def insert(conn: Connection) -> None:
        for number in range(6):
            insert_session(conn, f"s{number}", pending, pulling if number % 2 else pending)
        insert_session(conn, "bob", owner="bob")

    await storage.write(insert)
    first = await sessions.list(**ANY | {"owner_id": "ada", "limit": 4})
    rest = await sessions.list(**ANY | {"owner_id": "ada", "after": first[-1].id})
    assert [view.id for view in (*first, *rest)] == ["s5", "s4", "s3", "s2", "s1", "s0"]
    waiting = await sessions.list(**ANY | {"statuses": [KernelStatus.PENDING], "limit": 2})
    assert [view.id for view in waiting] == ["bob", "s4"]
    with pytest.raises(InvalidRequest):
        await sessions.list(**ANY | {"after": "gone"})


async def test_terminating_twice_answers_the_end_as_it_is(sessions: Sessions) -> None:
    made = await sessions.create(SessionRequest([KERNEL]), owner=ADA)
    ended = await sessions.terminate(made.id, who=ADA)
    assert (ended.status, ended.status_info) == (KernelStatus.CANCELLED, Reason.ENDED_BY_USER)
    assert (await sessions.terminate(made.id, who=ADA)).to_json() == ended.to_json()


@pytest.mark.parametrize("status", [KernelStatus.RUNNING, KernelStatus.TERMINATING])
async def test_only_what_does_not_run_is_cancelled(
    sessions: Sessions, storage: Storage, status: KernelStatus
) -> None:
    await storage.write(insert_session, "s", {"status": status, "agent_id": "a-1"})
    with pytest.raises(Conflict):
        await sessions.cancel("s", who=ADA, forced=False)
    made = await sessions.create(SessionRequest([KERNEL]), owner=ADA)
    assert (await sessions.cancel(made.id, who=ADA, forced=False)).status is KernelStatus.CANCELLED
    with pytest.raises(Conflict):
        await sessions.cancel(made.id, who=ADA, forced=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda sessions: sessions.show("x"),
        lambda sessions: sessions.of_kernel("x"),
        lambda sessions: sessions.terminate("x", who=ADA),
        lambda sessions: sessions.cancel("x", who=ADA, forced=False),
    ],
)
async def test_an_id_that_is_none_is_refused(
    sessions: Sessions, call: Callable[[Sessions], Any]
) -> None:
    with pytest.raises(UnknownId):
        await call(sessions)
