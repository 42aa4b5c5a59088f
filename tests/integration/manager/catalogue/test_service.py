"""What superadmins do with the catalogue, and that it is entered."""

import pytest
from rig.images import layer, push
from rig.people import ROOT
from rig.registry import Registry
from sqlalchemy import Connection, select

from wharfinger.domain.errors import InvalidReference, UnknownId, UnknownRegistry
from wharfinger.domain.failures import FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.manager.access import audit
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.storage import tables

from .conftest import Shelf


async def deeds(shelf: Shelf) -> list[tuple[str, str]]:
    entered = await shelf.storage.read(audit.page, action="image", limit=20)
    return [(entry.action, entry.target) for entry in reversed(entered)]


def protected(conn: Connection) -> list[tuple[str, str]]:
    rows = conn.execute(select(tables.protected_images))
    return [(row.reference, row.by) for row in rows]


async def test_a_reference_is_registered_as_its_registry_has_it(
    shelf: Shelf, registry: Registry
) -> None:
    pushed = push(registry.host, "lab/app", "latest", [layer({})], labels={"of": "lab"})
    await shelf.know(registry.host)

    entry = await shelf.catalogue.register(f"{registry.host}/lab/app", who=ROOT)

    assert (await shelf.entries()) == {"lab/app:latest": entry}
    assert (entry.root_digest, entry.labels) == (pushed.root_digest, {"of": "lab"})
    [known] = (await shelf.storage.read(resolved.find, [pushed.root_digest])).values()
    assert known.for_platform(Platform("linux", "amd64")) is not None
    assert await deeds(shelf) == [("image.register", entry.reference)]


async def test_what_cannot_be_resolved_is_not_registered(
    sqlite_shelf: Shelf, registry: Registry
) -> None:
    catalogue = sqlite_shelf.catalogue
    await sqlite_shelf.know(registry.host)
    with pytest.raises(FailureError) as caught:
        await catalogue.register(f"{registry.host}/lab/app", who=ROOT)
    assert caught.value.code == "not-found"
    with pytest.raises(UnknownRegistry):
        await catalogue.register("h.test/app", who=ROOT)
    with pytest.raises(InvalidReference):
        await catalogue.register("h.test/App", who=ROOT)
    assert await sqlite_shelf.entries() == {}
    assert await deeds(sqlite_shelf) == []


async def test_forgetting_is_entered_once_it_happened(
    sqlite_shelf: Shelf, registry: Registry
) -> None:
    push(registry.host, "lab/app", "v1", [layer({})])
    reference = f"{registry.host}/lab/app:v1"
    await sqlite_shelf.know(registry.host)
    await sqlite_shelf.catalogue.register(reference, who=ROOT)

    assert (await sqlite_shelf.catalogue.forget(reference, who=ROOT)).status == "forgotten"
    with pytest.raises(UnknownId, match="has no image"):
        await sqlite_shelf.catalogue.forget(f"{registry.host}/other", who=ROOT)

    assert await deeds(sqlite_shelf) == [("image.register", reference), ("image.forget", reference)]


async def test_any_reference_is_protected_until_it_is_not(shelf: Shelf) -> None:
    catalogue, busybox = shelf.catalogue, "docker.io/library/busybox:latest"

    assert await catalogue.protect("busybox", who=ROOT) == busybox
    assert await catalogue.protect("docker.io/busybox", who=ROOT) == busybox
    assert await shelf.storage.read(protected) == [(busybox, "user root")]

    assert await catalogue.unprotect("busybox", who=ROOT) == busybox
    assert await shelf.storage.read(protected) == []
    with pytest.raises(UnknownId, match="is not protected"):
        await catalogue.unprotect("busybox", who=ROOT)
    assert [action for action, _ in await deeds(shelf)] == [
        "image.protect",
        "image.protect",
        "image.unprotect",
    ]
