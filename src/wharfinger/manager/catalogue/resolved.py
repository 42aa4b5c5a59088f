"""What root digests consist of, kept since it never changes, and what references mean here."""

from collections.abc import Collection

from sqlalchemy import Connection, select

from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.manager.catalogue import entries
from wharfinger.manager.catalogue.entries import EntryStatus
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import resolved_images
from wharfinger.registry.images import ResolvedImage


def keep(conn: Connection, image: ResolvedImage) -> None:
    """Remember what this digest consists of."""
    values = {"document": image.to_json(), "resolved_at": now(conn)}
    put(conn, resolved_images, {"root_digest": image.root_digest}, values)


def find(conn: Connection, root_digests: Collection[str]) -> dict[str, ResolvedImage]:
    """What is known of these digests. Their `reference` is whichever was resolved last."""
    rows = conn.execute(
        select(resolved_images.c.root_digest, resolved_images.c.document).where(
            resolved_images.c.root_digest.in_(root_digests)
        )
    )
    return {row.root_digest: ResolvedImage.from_json(row.document) for row in rows}


def platforms(conn: Connection, root_digests: Collection[str]) -> dict[str, tuple[Platform, ...]]:
    """All that these digests are for, of those that are known."""
    return {
        digest: (*(each.platform for each in image.platforms), *image.others)
        for digest, image in find(conn, root_digests).items()
    }


def mean(conn: Connection, image: ResolvedImage) -> None:
    """Its reference is in the catalogue, and means its root digest here from now on."""
    entries.register(conn, image)
    keep(conn, image)


def meaning(conn: Connection, reference: Reference) -> str | None:
    """The root digest the reference means: its own, else the catalogue's; None when not known, or
    forgotten."""
    if reference.digest is not None:
        return reference.digest
    entry = entries.find(conn, reference)
    return None if entry is None or entry.status is EntryStatus.FORGOTTEN else entry.root_digest
