"""The catalogue's rows, and who may use what they name, on each database."""

from typing import Any

import pytest
from rig.catalogue import AMD64, told_image
from rig.people import ROOT
from sqlalchemy import Connection, update

from wharfinger.domain.errors import UnknownId
from wharfinger.domain.failures import FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.manager.access import grants, users
from wharfinger.manager.access.principal import Principal, Role
from wharfinger.manager.catalogue import entries, resolved
from wharfinger.manager.catalogue.entries import CatalogueEntry, EntryStatus
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.images import ResolvedImage

ALICE = Principal("u-1", "alice", Role.USER)
FIRST, SECOND = "sha256:" + "1" * 64, "sha256:" + "2" * 64
ARM64 = Platform("linux", "arm64")
APP = Reference.parse("h.test/lab/app:v1")


def image(reference: str = str(APP), digest: str = FIRST, **more: Any) -> ResolvedImage:
    return told_image(reference, digest, **more)


def entry(conn: Connection, reference: Reference = APP) -> CatalogueEntry:
    found = entries.find(conn, reference)
    assert found is not None
    return found


def lose(conn: Connection, reference: Reference) -> None:
    conn.execute(
        update(tables.images)
        .where(tables.images.c.reference == str(reference))
        .values(status="missing")
    )


async def test_what_is_registered_is_known_with_what_was_seen_of_it(storage: Storage) -> None:
    await storage.write(
        entries.register, image(platforms=(AMD64,), others=(ARM64,), labels=[("a", "b")])
    )

    found = await storage.read(entry)

    assert found.status is EntryStatus.KNOWN
    assert found.repository == "h.test/lab/app"
    assert found.to_json() | {"seenAt": 0, "updatedAt": 0} == {
        "reference": "h.test/lab/app:v1",
        "registry": "h.test",
        "rootDigest": FIRST,
        "size": 100,
        "platforms": [
            {"os": "linux", "architecture": "arm64", "variant": "", "size": None},
            {"os": "linux", "architecture": "amd64", "variant": "", "size": 100},
        ],
        "labels": {"a": "b"},
        "status": "known",
        "seenAt": 0,
        "updatedAt": 0,
    }


async def test_another_look_at_the_same_digest_loses_nothing(storage: Storage) -> None:
    both = image(platforms=(AMD64, ARM64), labels=[("a", "b")])

    def deed(conn: Connection) -> CatalogueEntry:
        entries.register(conn, both)
        entries.register(conn, image(platforms=(AMD64,), others=(ARM64,)))
        return entry(conn)

    found = await storage.write(deed)
    assert [each["size"] for each in found.platforms] == [100, 101]
    assert found.size == 101
    assert found.labels == {"a": "b"}

    await storage.write(entries.register, image(digest=SECOND))
    moved = await storage.read(entry)
    assert (moved.root_digest, moved.size, moved.labels) == (SECOND, 100, {})
    assert len(moved.platforms) == 1


async def test_users_may_use_what_the_catalogue_has_and_nothing_else(storage: Storage) -> None:
    def deed(conn: Connection) -> None:
        entries.register(conn, image())
        entries.register(conn, image("h.test/lab/lost:v1"))
        lose(conn, Reference.parse("h.test/lab/lost:v1"))

    await storage.write(deed)
    for text, usable in {
        "h.test/lab/app:v1": True,
        f"h.test/lab/app@{FIRST}": True,
        f"h.test/lab/app:other@{FIRST}": True,
        f"h.test/lab/app@{SECOND}": False,
        f"h.test/lab/other@{FIRST}": False,
        "h.test/lab/app:v2": False,
        "h.test/lab/lost:v1": True,
    }.items():
        reference = Reference.parse(text)
        assert await storage.read(entries.may_use, ALICE, reference) is usable, text
        assert await storage.read(entries.may_use, ROOT, reference)
        assert (await storage.read(entries.visible, ALICE))(text) is usable, text
        assert (await storage.read(entries.visible, ROOT))(text)


async def test_absent_and_forbidden_are_one_answer(storage: Storage) -> None:
    def deed(conn: Connection) -> None:
        entries.register(conn, image())
        users.add_user(conn, "bob", "user")
        grants.grant(conn, "h.test/lab", ["bob"], [])

    await storage.write(deed)
    for text in ("h.test/lab/app:v1", "h.test/lab/absent:v1", "h.test/app:v1"):
        with pytest.raises(FailureError) as caught:
            await storage.read(entries.require, ALICE, Reference.parse(text))
        assert caught.value.to_json() == {
            "class": "not-found",
            "message": f"there is no image {text} here",
            "detail": {"raw": "", "reference": text},
        }
    bob = Principal("u-2", "bob", Role.USER)
    await storage.read(entries.require, bob, APP)
    assert (await storage.read(entries.visible, bob))(str(APP))
    assert not (await storage.read(entries.visible, ALICE))(str(APP))


async def test_what_is_forgotten_means_nothing_until_it_is_registered_again(
    storage: Storage,
) -> None:
    def forget(conn: Connection) -> None:
        resolved.mean(conn, image())
        assert resolved.meaning(conn, APP) == FIRST
        assert entries.forget(conn, APP).status is EntryStatus.FORGOTTEN
        assert entries.forget(conn, APP).status is EntryStatus.FORGOTTEN

    await storage.write(forget)
    assert await storage.read(resolved.meaning, APP) is None
    assert not await storage.read(entries.may_use, ALICE, APP)
    pinned = Reference.parse(APP.pinned(FIRST))
    assert not await storage.read(entries.may_use, ALICE, pinned)

    await storage.write(resolved.mean, image(digest=SECOND))
    assert await storage.read(resolved.meaning, APP) == SECOND
    assert await storage.read(entries.may_use, ALICE, APP)


async def test_forgetting_what_is_not_there_names_what_is_near(storage: Storage) -> None:
    def deed(conn: Connection) -> None:
        for name in ("app:v1", "app:v22", "base:v1"):
            entries.register(conn, image(f"h.test/lab/{name}"))

    await storage.write(deed)
    with pytest.raises(UnknownId, match=r"near: h\.test/lab/app:v22") as caught:
        await storage.write(entries.forget, Reference.parse("h.test/lab/app:v222"))
    assert caught.value.detail["near"][0] == "h.test/lab/app:v22"
    with pytest.raises(UnknownId, match=r"near: h\.test/lab/base:v1"):
        await storage.write(entries.forget, Reference.parse("h.test/lab/bose:v1"))
    with pytest.raises(UnknownId, match=r"no image other\.test/zzz:v1$"):
        await storage.write(entries.forget, Reference.parse("other.test/zzz:v1"))
