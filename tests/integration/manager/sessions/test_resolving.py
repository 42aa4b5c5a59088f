"""Resolving the references of waiting kernels, at real registries and at ones that are away."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from rig.orders import SampleImage
from rig.people import ROOT
from rig.ports import free_port
from rig.queues import insert_host, insert_session, insert_user
from rig.registry import Registry
from rig.tasks import eventually
from sqlalchemy import Connection, delete, update

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import Reference
from wharfinger.domain.retries import PATIENCE_SECONDS
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.access.principal import Role
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.catalogue import entries, resolved
from wharfinger.manager.catalogue.entries import CatalogueEntry, EntryStatus
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.resolving import (
    Resolve,
    Unresolved,
    note_failure,
    settle,
    survey,
)
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.images import ResolvedImage
from wharfinger.registry.transport import Limits

IMAGE = "h.test/image:v1"
ASKED = Unresolved(IMAGE, None, Reference.parse(IMAGE))
AWAY = Failure(FailureClass.NETWORK, "no answer")


class Asking:
    """The loop, and what it found."""

    def __init__(self, storage: Storage, registries: Registries, client: RegistryClient) -> None:
        self.storage = storage
        self.registries = registries
        self.resolve = Resolve(storage, MemoryBus(), registries, client, by="test", period=0.05)

    async def kernel(self, kernel_id: str) -> Kernel:
        return (await self.storage.read(kernels.where, tables.kernels.c.id == kernel_id))[0]

    async def until(self, kernel_id: str, status: KernelStatus, info: Reason | None) -> Kernel:
        async def there() -> bool:
            kernel = await self.kernel(kernel_id)
            return (kernel.status, kernel.status_info) == (status, info)

        await eventually(there)
        return await self.kernel(kernel_id)


@pytest.fixture
async def asking(storage: Storage) -> AsyncIterator[Asking]:
    async with RegistryClient(Limits(tries=1)) as client:
        registries = Registries(storage, Vault(Fernet.generate_key()), client)
        made = Asking(storage, registries, client)
        await storage.write(insert_host, "a-1")
        yield made
        await made.resolve.stop()


def _insert(conn: Connection, session_id: str, reference: str) -> None:
    differing = {
        "reference": reference,
        "registry": Reference.parse(reference).registry,
        "root_digest": None,
        "status_info": Reason.RESOLVING_IMAGE,
    }
    insert_session(conn, session_id, differing, differing)


async def test_a_reference_is_resolved_for_all_who_wait_beside_a_registry_that_is_away(
    asking: Asking, tmp_path: Path
) -> None:
    away = f"127.0.0.1:{free_port()}"
    with Registry(tmp_path / "registry") as registry:
        image = SampleImage(registry)
        for host in (away, registry.host):
            await asking.registries.add(f"http://{host}", None, None, who=ROOT)
        await asking.storage.write(_insert, "away", f"{away}/app:v1")
        await asking.storage.write(_insert, "here", image.tag)
        await asking.resolve.start()
        for kernel_id in ("here-0", "here-1"):
            kernel = await asking.until(kernel_id, KernelStatus.PENDING, None)
            assert kernel.root_digest == image.pushed.root_digest
        waiting = await asking.until("away-0", KernelStatus.PENDING, Reason.REGISTRY_UNREACHABLE)
    assert waiting.status_data is not None
    assert waiting.status_data["failure"]["class"] == "network"
    assert "nextTryAt" in waiting.status_data
    found = await asking.storage.read(resolved.find, [image.pushed.root_digest])
    assert found[image.pushed.root_digest].platforms


async def test_an_image_that_does_not_exist_ends_its_session_with_the_registrys_text(
    asking: Asking, tmp_path: Path
) -> None:
    with Registry(tmp_path / "registry") as registry:
        await asking.registries.add(f"http://{registry.host}", None, None, who=ROOT)
        await asking.storage.write(_insert, "s", f"{registry.host}/no/such:v1")
        await asking.resolve.start()
        kernel = await asking.until("s-0", KernelStatus.ERROR, Reason.FAILED)
    assert kernel.failure is not None
    assert kernel.failure.failure_class is FailureClass.NOT_FOUND
    assert "MANIFEST_UNKNOWN" in kernel.failure.detail
    assert (await asking.kernel("s-1")).status is KernelStatus.ERROR


async def test_a_registry_that_was_forgotten_meanwhile_ends_the_session(asking: Asking) -> None:
    await asking.storage.write(_insert, "s", "gone.test/app:v1")
    await asking.resolve.start()
    kernel = await asking.until("s-0", KernelStatus.ERROR, Reason.FAILED)
    assert kernel.failure is not None
    assert kernel.failure.failure_class is FailureClass.AUTH
    assert kernel.failure.detail == "unknown-registry"


async def test_what_may_pass_is_asked_again_after_1_5_15_and_15_seconds_for_a_minute(
    storage: Storage,
) -> None:
    await storage.write(_insert, "s", IMAGE)

    def fail(conn: Connection, failing_for: float) -> tuple[KernelStatus, int]:
        at = now(conn)
        conn.execute(update(tables.kernels).values(next_try_at=None))
        if failing_for:
            conn.execute(update(tables.kernels).values(failing_since=at - failing_for))
        assert note_failure(conn, ASKED, AWAY, by="test")
        assert not note_failure(conn, ASKED, AWAY, by="test"), "not due"
        [kernel, _] = kernels.where(conn, tables.kernels.c.session_id == "s")
        return kernel.status, round((kernel.next_try_at or at) - at)

    waits = [await storage.write(fail, spent) for spent in (0, 1, 6, 21, 36)]
    assert waits == [(KernelStatus.PENDING, delay) for delay in (1, 5, 15, 15, 15)]
    status, _ = await storage.write(fail, PATIENCE_SECONDS + 1)
    assert status is KernelStatus.ERROR


async def test_what_the_catalogue_knows_by_now_is_what_the_registry_is_asked_for(
    storage: Storage,
) -> None:
    digest = "sha256:" + "b" * 64

    def look(conn: Connection) -> Unresolved:
        _insert(conn, "s", IMAGE)
        entries.register(conn, ResolvedImage(Reference.parse(IMAGE), digest, "index", ()))
        [wanted] = survey(conn)[0]
        return wanted

    wanted = await storage.write(look)
    assert str(wanted.pinned) == f"h.test/image@{digest}"


async def test_a_superadmins_unknown_reference_is_in_the_catalogue_once_resolved(
    storage: Storage,
) -> None:
    digest = "sha256:" + "b" * 64
    image = ResolvedImage(Reference.parse(IMAGE), digest, "index", ())

    def settled(conn: Connection, role: Role) -> CatalogueEntry | None:
        conn.execute(delete(tables.resolved_images))
        conn.execute(update(tables.users).values(role=role))
        conn.execute(update(tables.kernels).values(root_digest=None))
        assert settle(conn, ASKED, image)
        return entries.find(conn, image.reference)

    await storage.write(insert_user, "ada")
    await storage.write(_insert, "s", IMAGE)
    assert await storage.write(settled, Role.USER) is None
    found = await storage.write(settled, Role.SUPERADMIN)
    assert found is not None
    assert (found.root_digest, found.status) == (digest, EntryStatus.KNOWN)
    await storage.write(entries.forget, image.reference)
    forgotten = await storage.write(settled, Role.SUPERADMIN)
    assert forgotten is not None
    assert forgotten.status is EntryStatus.FORGOTTEN
