"""What root digests consist of, kept since it never changes, and what references mean here."""

from collections.abc import Collection

from sqlalchemy import Connection, select

from wharfinger.domain.references import Reference
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import images, resolved_images
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


def mean(conn: Connection, image: ResolvedImage) -> None:
    """Its reference means its root digest here from now on."""
    at = now(conn)
    values = {
        "registry": image.reference.registry,
        "repository": image.reference.name,
        "root_digest": image.root_digest,
        "size": max((variant.size for variant in image.platforms), default=0),
        "platforms": [
            {
                "os": each.platform.os,
                "architecture": each.platform.architecture,
                "variant": each.platform.variant,
                "size": each.size,
            }
            for each in image.platforms
        ],
        "status": "known",
        "seen_at": at,
        "updated_at": at,
    }
    put(conn, images, {"reference": str(image.reference)}, values, labels={})
    keep(conn, image)


def meaning(conn: Connection, reference: Reference) -> str | None:
    """The root digest the reference means: its own, else the catalogue's; None when not known."""
    if reference.digest is not None:
        return reference.digest
    return conn.scalar(select(images.c.root_digest).where(images.c.reference == str(reference)))
