"""The agents-images mapping, kept in step with what each agent last listed.

What is seen or removed is entered at once, ahead of the agent's next listing. That listing may then
be the same as the one before, since somebody undid it by hand, and would not be sent; so a fresh one
is asked for by a mark in the place of the listing's version.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, update

from wharfinger.contracts.ingest import Inventory, InventoryImage
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import agent_images, agents

_MARK: Final = "asked-"
"""How a mark begins; no listing's version does."""


def version(conn: Connection, agent_id: str) -> str:
    """What is kept: a listing's version, a mark, or nothing yet ("")."""
    kept = select(agents.c.inventory_version).where(agents.c.id == agent_id)
    return str(conn.execute(kept).scalar_one())


def replace(conn: Connection, agent_id: str, inventory: Inventory) -> None:
    """Make the agent's rows what its full listing says, touching only what differs."""
    kept = version(conn, agent_id)
    if not kept.startswith(_MARK) or kept == inventory.asked:
        _keep_version(conn, agent_id, inventory.version)
    held = {
        row.reference: {
            "reference": row.reference,
            "image_id": row.image_id,
            "root_digest": row.root_digest,
            "size": row.size,
        }
        for row in conn.execute(select(agent_images).where(agent_images.c.agent_id == agent_id))
    }
    known = {reference: row["root_digest"] for reference, row in held.items()}
    listed = {row["reference"]: row for image in inventory.images for row in _rows(image, known)}
    changed = [reference for reference, row in held.items() if listed.get(reference) != row]
    if changed:
        _drop(conn, agent_id, changed)
    new = [
        {"agent_id": agent_id, **row}
        for reference, row in listed.items()
        if held.get(reference) != row
    ]
    if new:
        conn.execute(insert(agent_images), new)


def note(
    conn: Connection, agent_id: str, reference: str, image_id: str, root_digest: str, size: int
) -> None:
    """One image was just seen on the agent: no need to wait for its next listing.

    Takes the agent's lock when that is new.
    """
    table = agent_images
    key = {"agent_id": agent_id, "reference": reference}
    values = {"image_id": image_id, "root_digest": root_digest, "size": size}
    same = select(table.c.agent_id).filter_by(**key, **values)
    if conn.execute(same).one_or_none() is None:
        _ask(conn, agent_id)
        put(conn, table, key, values)


def forget(conn: Connection, agent_id: str, references: Sequence[str]) -> None:
    """These are no longer on the agent. Takes the agent's lock."""
    _ask(conn, agent_id)
    _drop(conn, agent_id, references)


def _ask(conn: Connection, agent_id: str) -> None:
    """Have the agent list anew, if it has listed yet."""
    if version(conn, agent_id):
        _keep_version(conn, agent_id, _MARK + secrets.token_hex(8))


def _keep_version(conn: Connection, agent_id: str, kept: str) -> None:
    conn.execute(update(agents).where(agents.c.id == agent_id).values(inventory_version=kept))


def _drop(conn: Connection, agent_id: str, references: Sequence[str]) -> None:
    conn.execute(
        delete(agent_images).where(
            agent_images.c.agent_id == agent_id, agent_images.c.reference.in_(references)
        )
    )


def _rows(image: InventoryImage, known: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
    """A row per tag, and one per digest reference of a repository that has no tag here.

    An image may carry several digests of one repository (an index's and a manifest's): the one
    already known stays.
    """
    tagged = {tag.rpartition(":")[0] for tag in image.tags}
    digests: dict[str, list[str]] = {}
    for name in image.digests:
        repository, _, digest = name.partition("@")
        digests.setdefault(repository, []).append(digest)
    every = [digest for found in digests.values() for digest in found]
    shared = {"image_id": image.image_id, "size": image.size}
    for tag in image.tags:
        own = digests.get(tag.rpartition(":")[0], every)
        kept = known.get(tag)
        root_digest = kept if kept in own else next(iter(own), None)
        yield {"reference": tag, "root_digest": root_digest, **shared}
    for repository, found in digests.items():
        if repository not in tagged:
            for digest in found:
                yield {"reference": f"{repository}@{digest}", "root_digest": digest, **shared}
