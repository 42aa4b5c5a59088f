"""What is seen or removed ahead of an agent's listing lasts until a listing that knows of it."""

from rig.people import ROOT
from rig.rows import insert_agent
from sqlalchemy import Connection

from wharfinger.contracts.ingest import Inventory, InventoryImage
from wharfinger.manager.fleet import agents, inventory
from wharfinger.manager.storage.port import Storage

ONE, TWO = "h.test/one:v1", "h.test/two:v1"
DIGEST = "sha256:" + "a" * 64


def listing(version: str, *references: str, asked: str = "") -> Inventory:
    entries = tuple(
        InventoryImage(
            image_id=f"id of {reference}",
            tags=(reference,),
            digests=(f"{reference.rpartition(':')[0]}@{DIGEST}",),
            size=5,
        )
        for reference in references
    )
    return Inventory(version=version, asked=asked, images=entries)


def arrived(conn: Connection, kept: str) -> None:
    insert_agent(conn, "a-1", inventory_version=kept)


def seen(conn: Connection, reference: str) -> str:
    """See it, and what is kept then."""
    inventory.note(conn, "a-1", reference, f"id of {reference}", DIGEST, 5)
    return inventory.version(conn, "a-1")


def removed(conn: Connection, reference: str) -> str:
    inventory.forget(conn, "a-1", [reference])
    return inventory.version(conn, "a-1")


def listed(conn: Connection, said: Inventory) -> tuple[str, list[str]]:
    """Take a listing in; what is kept, and what the mapping holds then."""
    inventory.replace(conn, "a-1", said)
    shown = [view.reference for view in agents.images(conn, "a-1", ROOT)]
    return inventory.version(conn, "a-1"), shown


async def begun(storage: Storage, *references: str) -> None:
    await storage.write(arrived, "v0")
    await storage.write(listed, listing("v1", *references))


async def test_an_image_removed_by_hand_before_it_was_listed_is_not_shown_for_ever(
    storage: Storage,
) -> None:
    await begun(storage)
    mark = await storage.write(seen, ONE)
    assert mark != "v1"
    assert await storage.write(listed, listing("v1", asked=mark)) == ("v1", [])


async def test_an_image_pulled_by_hand_after_its_unload_is_shown(storage: Storage) -> None:
    await begun(storage, ONE)
    mark = await storage.write(removed, ONE)
    assert mark != "v1"
    assert await storage.write(listed, listing("v1", ONE, asked=mark)) == ("v1", [ONE])


async def test_a_listing_that_answers_an_older_mark_leaves_the_newer_one(storage: Storage) -> None:
    await begun(storage)
    older = await storage.write(seen, ONE)
    newer = await storage.write(seen, TWO)
    kept, _ = await storage.write(listed, listing("v2", ONE, asked=older))
    assert kept == newer != older


async def test_what_was_listed_already_asks_for_no_listing(storage: Storage) -> None:
    await begun(storage, ONE)
    assert await storage.write(seen, ONE) == "v1"


async def test_an_agent_that_has_not_listed_yet_is_asked_for_nothing(storage: Storage) -> None:
    await storage.write(arrived, "")
    assert await storage.write(seen, ONE) == ""
