"""What is where: the agents' listings, the catalogue and what is under way, in one view.

One page is read at a time: first which references at which digests there are, then all of those.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, Subquery, func, select, true, union

from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.states import ItemStatus
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.catalogue import entries
from wharfinger.manager.catalogue.entries import EntryStatus, PlatformSize
from wharfinger.manager.gate.protection import Protection
from wharfinger.manager.storage import tables

PRELOAD = "preload"
UNLOAD = "unload"
"""The names of the two kinds of task, and of their functions."""

UNREGISTERED: Final = "unregistered"
STATUSES: Final = (*(status.value for status in EntryStatus), UNREGISTERED)
"""How a reference stands in the catalogue, where `unregistered` is not in it."""

_BATCH: Final = 500
_COLLATION: Final = {"sqlite": "BINARY", "postgresql": "C"}


class ImageOnAgent(NamedTuple):
    """`status` is present, pulling or removing; `size` in bytes as its engine counts, 0 while it is
    not there."""

    agent_id: str
    status: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class ImageView:
    """One reference at one root digest, and the agents that hold it or are about to.

    `size` is in bytes: compressed as the registry has it where that is known, else as an engine
    counts. `status` is one of `STATUSES`. `platforms` and `labels` are the catalogue's, of this
    very digest.
    """

    reference: str
    root_digest: str | None
    size: int
    agents: Sequence[ImageOnAgent]
    status: str = UNREGISTERED
    protected: bool = False
    platforms: Sequence[PlatformSize] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The text this row is sorted and continued by."""
        return f"{self.reference} {self.root_digest or ''}"

    @property
    def registry(self) -> str:
        """`host[:port]`."""
        return self.reference.partition("/")[0]

    @property
    def bytes_on_agents(self) -> int:
        """On all agents together, as engines count: layers shared with other images too."""
        return sum(each.size for each in self.agents)


def list_images(
    conn: Connection,
    who: Principal,
    *,
    reference: str | None,
    registry: str | None,
    statuses: Collection[str],
    agent_id: str | None,
    after: str | None,
    limit: int,
    protected: Sequence[str],
) -> list[ImageView]:
    """Up to `limit` images that this user may use, sorted by `key` and after the one with the key
    `after`. `reference` narrows by a part of it, no `statuses` are any; `protected` are the
    settings' patterns. Raises `InvalidRequest` for a status that is none.
    """
    if unknown := sorted(set(statuses) - set(STATUSES)):
        raise InvalidRequest(
            f"There is no status {unknown[0][:64]!r} of images; known: {', '.join(STATUSES)}"
        )
    may_see = entries.visible(conn, who)
    every = _every(agent_id)
    narrowed = select(every).order_by(*_order(conn, every))
    if reference is not None:
        narrowed = narrowed.where(
            func.replace(every.c.reference, reference, "") != every.c.reference
        )
    if registry is not None:
        narrowed = narrowed.where(every.c.reference.startswith(f"{registry}/", autoescape=True))
    if statuses:
        narrowed = narrowed.where(every.c.status.in_(statuses))
    seen = (key for key in _following(conn, narrowed, every, after) if may_see(key.reference))
    return _views(conn, list(islice(seen, limit)), Protection(conn, protected))


class _Key(NamedTuple):
    """`digest` is empty where there is none."""

    reference: str
    digest: str
    status: str


def _every(agent_id: str | None) -> Subquery:
    """All keys there are, or those an agent has to do with."""
    held, known, items, tasks = tables.agent_images, tables.images, tables.items, tables.tasks
    parts = [
        select(held.c.reference, held.c.root_digest).where(
            true() if agent_id is None else held.c.agent_id == agent_id
        ),
        select(items.c.reference, items.c.root_digest)
        .join(tasks, tasks.c.id == items.c.task_id)
        .where(
            items.c.status == ItemStatus.RUNNING,
            tasks.c.name == PRELOAD,
            true() if agent_id is None else items.c.agent_id == agent_id,
        ),
    ]
    if agent_id is None:
        parts.append(select(known.c.reference, known.c.root_digest))
    found = union(*parts).subquery()
    return (
        select(
            found.c.reference,
            func.coalesce(found.c.root_digest, "").label("digest"),
            func.coalesce(known.c.status, UNREGISTERED).label("status"),
        )
        .outerjoin(known, known.c.reference == found.c.reference)
        .subquery()
    )


def _order(conn: Connection, every: Subquery) -> tuple[ColumnElement[str], ColumnElement[str]]:
    """By code points, whatever the database's language: as `ImageView.key` sorts."""
    collation = _COLLATION[conn.dialect.name]
    return every.c.reference.collate(collation), every.c.digest.collate(collation)


def _following(
    conn: Connection, narrowed: Select[Any], every: Subquery, after: str | None
) -> Iterator[_Key]:
    """The keys after this one, read in batches."""
    reference, digest = _order(conn, every)
    last = None if after is None else tuple(after.partition(" ")[::2])
    while True:
        batch = narrowed.limit(_BATCH)
        if last is not None:
            batch = batch.where(
                (reference > last[0]) | ((reference == last[0]) & (digest > last[1]))
            )
        rows = conn.execute(batch).all()
        yield from (_Key(*row) for row in rows)
        if len(rows) < _BATCH:
            return
        last = (rows[-1].reference, rows[-1].digest)


def _views(conn: Connection, keys: Sequence[_Key], protection: Protection) -> list[ImageView]:
    names = {key.reference for key in keys}
    known = {
        row.reference: row
        for row in conn.execute(select(tables.images).where(tables.images.c.reference.in_(names)))
    }
    agents = _on_agents(conn, names)
    views = []
    for key in keys:
        there = sorted(agents.get((key.reference, key.digest), {}).values())
        entry = known.get(key.reference)
        meant = entry if entry is not None and entry.root_digest == key.digest else None
        views.append(
            ImageView(
                reference=key.reference,
                root_digest=key.digest or None,
                size=meant.size if meant else max((each.size for each in there), default=0),
                agents=there,
                status=key.status,
                protected=protection.refusal({key.reference}, {key.digest}) is not None,
                platforms=meant.platforms if meant else (),
                labels=meant.labels if meant else {},
            )
        )
    return views


def _on_agents(
    conn: Connection, names: Collection[str]
) -> Mapping[tuple[str, str], Mapping[str, ImageOnAgent]]:
    """By (reference, digest) the agents, by id."""
    held = tables.agent_images
    found: dict[tuple[str, str], dict[str, ImageOnAgent]] = defaultdict(dict)
    for row in conn.execute(select(held).where(held.c.reference.in_(names))):
        key = (row.reference, row.root_digest or "")
        found[key][row.agent_id] = ImageOnAgent(row.agent_id, "present", row.size)
    for row in _under_way(conn, names):
        if row.name == UNLOAD and row.held is None:
            continue  # there is nothing to remove
        removing = row.name == UNLOAD
        key = (row.reference, (row.held_digest if removing else row.root_digest) or "")
        there = found[key].get(row.agent_id, ImageOnAgent(row.agent_id, ""))
        found[key][row.agent_id] = there._replace(status="removing" if removing else "pulling")
    return found


def _under_way(conn: Connection, names: Collection[str]) -> Iterable[Row[*tuple[Any, ...]]]:
    """Items that run now, each with what its agent holds under the reference."""
    items, tasks, held = tables.items, tables.tasks, tables.agent_images
    return conn.execute(
        select(
            items.c.reference,
            items.c.root_digest,
            items.c.agent_id,
            tasks.c.name,
            held.c.reference.label("held"),
            held.c.root_digest.label("held_digest"),
        )
        .join(tasks, tasks.c.id == items.c.task_id)
        .outerjoin(
            held,
            (held.c.agent_id == items.c.agent_id) & (held.c.reference == items.c.reference),
        )
        .where(items.c.status == ItemStatus.RUNNING, items.c.reference.in_(names))
    ).all()
