"""The agents-images mapping, kept in step with what each agent last listed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from wharfinger.contracts.ingest import Inventory, InventoryImage
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import agent_images


def replace(conn: Connection, agent_id: str, inventory: Inventory) -> None:
    """Make the agent's rows what its full listing says, touching only what differs."""
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
        forget(conn, agent_id, changed)
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
    """One image was just seen on the agent: no need to wait for its next listing."""
    put(
        conn,
        agent_images,
        {"agent_id": agent_id, "reference": reference},
        {"image_id": image_id, "root_digest": root_digest, "size": size},
    )


def forget(conn: Connection, agent_id: str, references: Sequence[str]) -> None:
    """These are no longer on the agent."""
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
