"""What a rescan reads and writes of the catalogue: a few hundred rows in one transaction.

What it has seen in a registry bears the time of it (`seen_at`), so that what was not seen since it
began shows without a list of all that was. Nothing it writes touches a forgotten entry.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Connection, or_, select, update

from wharfinger.manager.background.holding import hold
from wharfinger.manager.catalogue import entries
from wharfinger.manager.catalogue.entries import EntryStatus
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import images
from wharfinger.registry.images import ResolvedImage

_PINNED: Final = images.c.reference.contains("@")
_KNOWN: Final = images.c.status == EntryStatus.KNOWN.value
_REMEMBERED: Final = images.c.status != EntryStatus.FORGOTTEN.value


Before: TypeAlias = Mapping[str, tuple[str, EntryStatus]]
"""(root digest, status) of references, before they were looked at."""


@dataclass(frozen=True, slots=True)
class Sightings:
    """Of one batch of references: `same` mean what they meant, `found` mean something new here,
    `unread` are listed, but could not be read."""

    same: Collection[str] = ()
    found: Sequence[ResolvedImage] = ()
    unread: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch changed."""

    new: int = 0
    moved: int = 0
    unchanged: int = 0


def repositories(conn: Connection, registry: str, after: str, limit: int) -> Sequence[str]:
    """The repositories (`host/name`) of a registry that the catalogue has, by name."""
    return conn.scalars(
        select(images.c.repository)
        .where(images.c.registry == registry, images.c.repository > after)
        .distinct()
        .order_by(images.c.repository)
        .limit(limit)
    ).all()


def known_repositories(conn: Connection, registry: str, names: Collection[str]) -> set[str]:
    """Those of these that the catalogue has."""
    return set(
        conn.scalars(
            select(images.c.repository)
            .where(images.c.registry == registry, images.c.repository.in_(names))
            .distinct()
        )
    )


def known(conn: Connection, references: Collection[str]) -> dict[str, tuple[str, EntryStatus]]:
    """(root digest, status) of those of these that the catalogue has."""
    rows = conn.execute(
        select(images.c.reference, images.c.root_digest, images.c.status).where(
            images.c.reference.in_(references)
        )
    )
    return {row.reference: (row.root_digest, EntryStatus(row.status)) for row in rows}


def pinned(conn: Connection, repository: str, after: str, limit: int) -> Sequence[str]:
    """References of a repository that name a digest, in order."""
    return conn.scalars(
        select(images.c.reference)
        .where(
            images.c.repository == repository,
            images.c.reference > after,
            _PINNED,
            _REMEMBERED,
        )
        .order_by(images.c.reference)
        .limit(limit)
    ).all()


def note(
    conn: Connection,
    task_id: str,
    epoch: int,
    before: Before,
    sightings: Sightings,
) -> Changes:
    """Write one batch. `before` is what `known` said: what was changed or made since by somebody
    else is newer than what was seen, and stays. Raises `LostTask`."""
    hold(conn, task_id, epoch)
    current = known(conn, [*sightings.same, *(str(each.reference) for each in sightings.found)])
    at = now(conn)
    back = [
        name for name in sightings.same if current.get(name, ("", None))[1] is EntryStatus.MISSING
    ]
    _update(conn, back, status=EntryStatus.KNOWN.value, updated_at=at)
    _update(conn, [*sightings.same, *sightings.unread], seen_at=at)
    new = moved = 0
    for image in sightings.found:
        name = str(image.reference)
        if current.get(name) != before.get(name):
            continue
        entries.register(conn, image)
        if name in before and before[name][1] is EntryStatus.KNOWN:
            moved += 1
        else:
            new += 1
    return Changes(new + len(back), moved, len(sightings.same) - len(back))


def lose_unseen(conn: Connection, task_id: str, epoch: int, repository: str, since: float) -> int:
    """Mark as missing the tags of a repository that were not seen since; how many.

    For a repository whose list was read to its end. Raises `LostTask`.
    """
    unseen = or_(images.c.seen_at.is_(None), images.c.seen_at < since)
    return _lose(conn, task_id, epoch, (images.c.repository == repository) & ~_PINNED & unseen)


def lose(conn: Connection, task_id: str, epoch: int, references: Collection[str]) -> int:
    """Mark these as missing; how many were not yet. Raises `LostTask`."""
    return _lose(conn, task_id, epoch, images.c.reference.in_(references))


def _lose(conn: Connection, task_id: str, epoch: int, which: ColumnElement[bool]) -> int:
    hold(conn, task_id, epoch)
    changed = conn.execute(
        update(images)
        .where(which, _KNOWN)
        .values(status=EntryStatus.MISSING.value, updated_at=now(conn))
    )
    return changed.rowcount


def _update(conn: Connection, references: Collection[str], **values: Any) -> None:
    if references:
        conn.execute(
            update(images).where(images.c.reference.in_(references), _REMEMBERED).values(**values)
        )
