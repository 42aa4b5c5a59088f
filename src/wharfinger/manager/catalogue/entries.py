"""The catalogue: which references users may ask for, and what each means here.

An entry is `known`, `missing` (its registry no longer has it; hosts may) or `forgotten` (an admin
took it out). Nothing but a registration brings a forgotten one back.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, exists, select, update

from wharfinger.domain.errors import UnknownId
from wharfinger.domain.failures import Failure, FailureClass, FailureError
from wharfinger.domain.references import Reference
from wharfinger.manager.access import grants
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import images
from wharfinger.registry.images import ResolvedImage

_COMPARED: Final = 500
_NEAR: Final = 3


class EntryStatus(StrEnum):
    """How an entry stands."""

    KNOWN = "known"
    MISSING = "missing"
    FORGOTTEN = "forgotten"


PlatformSize: TypeAlias = Mapping[str, Any]
"""`{os, architecture, variant, size}`: compressed bytes, None where nobody has looked."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One reference. `repository` is `host/name`; `size` is in compressed bytes, of the largest
    platform known; times are seconds since the epoch."""

    reference: str
    registry: str
    repository: str
    root_digest: str
    size: int
    platforms: Sequence[PlatformSize]
    labels: Mapping[str, str]
    status: EntryStatus
    seen_at: float | None
    updated_at: float

    @classmethod
    def of(cls, row: Row[Any]) -> "CatalogueEntry":
        """From a row of images."""
        return cls(**{**row._mapping, "status": EntryStatus(row.status)})  # noqa: SLF001

    def to_json(self) -> dict[str, Any]:
        """As the interfaces show it."""
        return {
            "reference": self.reference,
            "registry": self.registry,
            "rootDigest": self.root_digest,
            "size": self.size,
            "platforms": [dict(each) for each in self.platforms],
            "labels": dict(self.labels),
            "status": self.status.value,
            "seenAt": self.seen_at,
            "updatedAt": self.updated_at,
        }


def find(conn: Connection, reference: Reference) -> CatalogueEntry | None:
    """The entry of exactly this reference."""
    row = conn.execute(select(images).where(images.c.reference == str(reference))).one_or_none()
    return None if row is None else CatalogueEntry.of(row)


def register(conn: Connection, image: ResolvedImage) -> CatalogueEntry:
    """Its reference is known, and means its root digest from now on.

    What was known of the same digest and was not looked at this time stays known.
    """
    before = find(conn, image.reference)
    same = before if before is not None and before.root_digest == image.root_digest else None
    platforms = _platforms(image, same.platforms if same else ())
    at = now(conn)
    entry = CatalogueEntry(
        reference=str(image.reference),
        registry=image.reference.registry,
        repository=image.reference.name,
        root_digest=image.root_digest,
        size=max((each["size"] or 0 for each in platforms), default=0),
        platforms=platforms,
        labels=dict(image.labels) or (same.labels if same else {}),
        status=EntryStatus.KNOWN,
        seen_at=at,
        updated_at=at,
    )
    values = {name: getattr(entry, name) for name in images.c.keys() if name != "reference"}  # noqa: SIM118
    put(conn, images, {"reference": entry.reference}, values)
    return entry


def forget(conn: Connection, reference: Reference) -> CatalogueEntry:
    """No user may ask for it any more; what runs goes on. Raises `UnknownId`, naming near ones."""
    entry = find(conn, reference)
    if entry is None:
        raise _unknown(conn, reference)
    if entry.status is not EntryStatus.FORGOTTEN:
        conn.execute(
            update(images)
            .where(images.c.reference == entry.reference)
            .values(status=EntryStatus.FORGOTTEN.value, updated_at=now(conn))
        )
    found = find(conn, reference)
    assert found is not None, "it was there in this transaction"
    return found


def may_use(conn: Connection, principal: Principal, reference: Reference) -> bool:
    """Whether this user may start sessions of it: an entry that is not forgotten covers it, and so
    do the grants of its path. A superadmin may use everything.

    What names a digest is covered by any entry of its repository that means this digest.
    """
    if principal.is_superadmin:
        return True
    covering = (
        images.c.reference == str(reference)
        if reference.digest is None
        else (images.c.repository == reference.name) & (images.c.root_digest == reference.digest)
    )
    usable = select(exists().where(covering, _not_forgotten()))
    return bool(conn.scalar(usable)) and grants.allow(conn, principal, reference.name)


def require(conn: Connection, principal: Principal, reference: Reference) -> None:
    """Raise `not-found` unless `may_use`: one text, whether it is absent or not for this user."""
    if not may_use(conn, principal, reference):
        raise FailureError(
            Failure(FailureClass.NOT_FOUND, f"there is no image {reference} here"),
            reference=str(reference),
        )


def visible(conn: Connection, principal: Principal) -> Callable[[str], bool]:
    """Tells of canonical references whether `may_use` holds: for lists, read once."""
    if principal.is_superadmin:
        return lambda _: True
    allowed = grants.allowed(conn, principal)
    rows = conn.execute(
        select(images.c.reference, images.c.repository, images.c.root_digest).where(
            _not_forgotten()
        )
    )
    usable: set[str] = set()
    for row in rows:
        if allowed(row.repository):
            usable |= {row.reference, f"{row.repository}@{row.root_digest}"}
    return lambda reference: reference in usable or _without_tag(reference) in usable


def _without_tag(reference: str) -> str | None:
    """`host/name@digest` of what names a digest, whatever its tag; None for what names none."""
    name, at, digest = reference.partition("@")
    if not at:
        return None
    parent, _, last = name.rpartition("/")
    return f"{parent}/{last.partition(':')[0]}@{digest}"


def _not_forgotten() -> ColumnElement[bool]:
    return images.c.status != EntryStatus.FORGOTTEN.value


def _platforms(image: ResolvedImage, before: Sequence[PlatformSize]) -> list[PlatformSize]:
    """Every platform of the image, with the sizes known from now or before."""
    sizes: dict[tuple[str, str, str], int | None] = {
        (each["os"], each["architecture"], each["variant"]): each["size"] for each in before
    }
    for other in image.others:
        sizes.setdefault((other.os, other.architecture, other.variant), None)
    for each in image.platforms:
        sizes[each.platform.os, each.platform.architecture, each.platform.variant] = each.size
    return [
        {"os": os, "architecture": architecture, "variant": variant, "size": size}
        for (os, architecture, variant), size in sizes.items()
    ]


def _unknown(conn: Connection, reference: Reference) -> UnknownId:
    """Names what a person may have meant: of the same repository, else of the same registry."""
    narrowest = (images.c.repository == reference.name, images.c.registry == reference.registry)
    near: list[str] = []
    for among in narrowest:
        known = conn.scalars(
            select(images.c.reference).where(among, _not_forgotten()).limit(_COMPARED)
        ).all()
        near = difflib.get_close_matches(str(reference), known, _NEAR)
        if near:
            break
    meant = f"; near: {', '.join(near)}" if near else ""
    return UnknownId(f"The catalogue has no image {reference}{meant}", id=str(reference), near=near)
