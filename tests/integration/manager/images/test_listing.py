"""What is where, in one view."""

from typing import Any

import pytest
from rig.rows import insert_agent, insert_task
from sqlalchemy import Connection, Table, insert

from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.manager.access.principal import Principal, Role
from wharfinger.manager.fleet import inventory
from wharfinger.manager.images import items as rows
from wharfinger.manager.images import listing
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.images.listing import (
    PRELOAD,
    UNLOAD,
    ImageOnAgent,
    ImageView,
    list_images,
)
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.put import put

ROOT = Principal("u0", "root", Role.SUPERADMIN)
OLD, NEW = "sha256:old", "sha256:new"
ONE = "h.test/one:v1"


def two_agents_with_one_image(conn: Connection) -> None:
    for agent_id in ("a-1", "b-1"):
        insert_agent(conn, agent_id)
    inventory.note(conn, "a-1", ONE, "sha256:1", OLD, 300)
    catalogued = {
        "registry": "h.test",
        "repository": "h.test/one",
        "root_digest": NEW,
        "size": 70,
        "platforms": [],
        "labels": {"a": "b"},
        "status": "known",
        "updated_at": 0,
    }
    put(conn, tables.images, {"reference": ONE}, catalogued)


def run(conn: Connection, name: str, *new: NewItem) -> None:
    insert_task(conn, name, name=name)
    rows.add(conn, name, new, by="test")
    for item in rows.of_task(conn, name):
        image = ImageKeys(item.reference)
        rows.run(conn, item.id, PreparationKind(name), image, phase=item.phase, by="test")


async def listed(storage: Storage, who: Principal = ROOT, **asked: Any) -> list[ImageView]:
    usual: dict[str, Any] = {
        "reference": None,
        "registry": None,
        "statuses": (),
        "agent_id": None,
        "after": None,
        "limit": 100,
        "protected": (),
    }
    return await storage.read(list_images, who, **(usual | asked))


async def test_a_moved_tag_shows_both_digests_and_who_holds_which(storage: Storage) -> None:
    await storage.write(two_agents_with_one_image)
    new, old = await listed(storage)
    assert (new.root_digest, new.size, new.agents, new.labels) == (NEW, 70, [], {"a": "b"})
    assert (old.root_digest, old.size, old.labels) == (OLD, 300, {})
    assert old.agents == [ImageOnAgent("a-1", "present", 300)]
    assert old.bytes_on_agents == 300
    assert {new.status, old.status} == {"known"}
    assert {new.registry, old.registry} == {"h.test"}


async def test_what_is_under_way_shows_on_its_agent(storage: Storage) -> None:
    await storage.write(two_agents_with_one_image)
    await storage.write(run, PRELOAD, NewItem("b-1", ONE, NEW))
    await storage.write(run, UNLOAD, NewItem("a-1", ONE))
    assert [(view.root_digest, view.agents) for view in await listed(storage)] == [
        (NEW, [("b-1", "pulling", 0)]),
        (OLD, [("a-1", "removing", 300)]),
    ]
    assert [view.root_digest for view in await listed(storage, agent_id="b-1")] == [NEW]


async def test_removing_what_is_not_there_shows_nothing(storage: Storage) -> None:
    await storage.write(two_agents_with_one_image)
    before = await listed(storage)
    await storage.write(run, UNLOAD, NewItem("b-1", ONE))
    assert await listed(storage) == before


async def test_the_list_is_narrowed_by_reference_registry_status_and_agent(
    storage: Storage,
) -> None:
    await storage.write(two_agents_with_one_image)
    await storage.write(inventory.note, "b-1", "h.test/two:v1", "sha256:2", OLD, 5)
    await storage.write(inventory.note, "b-1", "other.test/one:v1", "sha256:2", OLD, 5)
    assert await names(storage, reference="two") == ["h.test/two:v1"]
    assert await names(storage, reference="TWO") == []
    assert await names(storage, reference="%") == []
    assert await names(storage, registry="other.test") == ["other.test/one:v1"]
    assert await names(storage, registry="other") == []
    assert await names(storage, statuses=["known"]) == [ONE, ONE]
    assert await names(storage, statuses=["missing", "forgotten"]) == []
    assert await names(storage, statuses=["unregistered"]) == ["h.test/two:v1", "other.test/one:v1"]
    assert [view.root_digest for view in await listed(storage, agent_id="a-1")] == [OLD]
    with pytest.raises(InvalidRequest, match="unregistered"):
        await listed(storage, statuses=["gone"])


async def test_pages_follow_one_another_whatever_their_batches(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_BATCH", 2)
    await storage.write(two_agents_with_one_image)
    for name in ("B", "a", "a-b", "a.b", "a0", "z"):
        await storage.write(inventory.note, "b-1", f"h.test/x:{name}", "sha256:2", OLD, 5)
    every = await listed(storage)
    assert [view.key for view in every] == sorted(view.key for view in every)
    assert len(every) == 8
    paged: list[ImageView] = []
    while found := await listed(storage, limit=3, after=paged[-1].key if paged else None):
        paged += found
    assert paged == every


async def test_what_must_stay_is_marked(storage: Storage) -> None:
    await storage.write(two_agents_with_one_image)
    await storage.write(inventory.note, "b-1", "h.test/two:v1", "sha256:2", OLD, 5)
    await storage.write(enter, tables.protected_images, reference=ONE, by="root", at=0.0)
    assert [view.protected for view in await listed(storage)] == [True, True, False]
    shown = await listed(storage, protected=["h.test/t*"])
    assert [view.protected for view in shown] == [True, True, True]


async def test_users_see_what_they_may_use(storage: Storage) -> None:
    await storage.write(two_agents_with_one_image)
    await storage.write(inventory.note, "b-1", "h.test/two:v1", "sha256:2", OLD, 5)
    ann = Principal("u1", "ann", Role.USER)
    assert {view.reference for view in await listed(storage, ann)} == {ONE}
    await storage.write(enter, tables.image_grants, path="h.test", kind="user", subject="bob")
    assert await listed(storage, ann) == []


def enter(conn: Connection, table: Table, /, **values: Any) -> None:
    conn.execute(insert(table).values(**values))


async def names(storage: Storage, **asked: Any) -> list[str]:
    return [view.reference for view in await listed(storage, **asked)]
