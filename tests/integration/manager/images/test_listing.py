"""What is where, in one view."""

from rig.rows import insert_agent, insert_task
from sqlalchemy import Connection

from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.manager.fleet import inventory
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.images.listing import PRELOAD, UNLOAD, ImageView, list_images
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.put import put

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
        "labels": {},
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


async def listed(
    storage: Storage, reference: str | None = None, agent_id: str | None = None
) -> list[ImageView]:
    return await storage.read(list_images, reference, agent_id)


async def test_a_moved_tag_shows_both_digests_and_who_holds_which(storage: Storage) -> None:
    await storage.write(two_agents_with_one_image)
    assert await listed(storage) == [
        ImageView(ONE, NEW, 70, []),
        ImageView(ONE, OLD, 300, [("a-1", "present")]),
    ]


async def test_what_is_under_way_shows_on_its_agent(storage: Storage) -> None:
    await storage.write(two_agents_with_one_image)
    await storage.write(run, PRELOAD, NewItem("b-1", ONE, NEW))
    await storage.write(run, UNLOAD, NewItem("a-1", ONE))
    assert [(view.root_digest, view.agents) for view in await listed(storage)] == [
        (NEW, [("b-1", "pulling")]),
        (OLD, [("a-1", "removing")]),
    ]


async def test_removing_what_is_not_there_shows_nothing(storage: Storage) -> None:
    await storage.write(two_agents_with_one_image)
    before = await listed(storage)
    await storage.write(run, UNLOAD, NewItem("b-1", ONE))
    assert await listed(storage) == before


async def test_the_list_is_narrowed_by_a_part_of_the_reference_and_by_agent(
    storage: Storage,
) -> None:
    await storage.write(two_agents_with_one_image)
    await storage.write(inventory.note, "b-1", "h.test/two:v1", "sha256:2", OLD, 5)
    assert [view.reference for view in await listed(storage, "two")] == ["h.test/two:v1"]
    assert [view.root_digest for view in await listed(storage, None, "a-1")] == [OLD]
    assert await listed(storage, "TWO") == []
