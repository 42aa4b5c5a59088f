"""Preparations: the preloads and unloads that are running on an agent for an image.

A row lasts exactly as long as its item is running. Whoever inserts one, and whoever binds a kernel,
first locks the agent's row (`lock`), then looks for what meets its image, then writes: of two that
would meet, one sees the other.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from wharfinger.domain.gate import ImageKeys, PreparationKind, met
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import agents, attempts, items, preparations


@dataclass(frozen=True, slots=True)
class Preparation:
    """One item that is running, and how far it is.

    `begun_at` is in seconds since the epoch. Bytes and `eta_seconds` are as last kept (at most some
    seconds old); None where the time left is not known. `attempt_id` is its newest attempt, by
    which live figures are found; an unload has none.
    """

    item_id: str
    task_id: str
    agent_id: str
    kind: PreparationKind
    keys: ImageKeys
    begun_at: float
    bytes_done: int
    bytes_total: int
    eta_seconds: float | None
    attempt_id: str | None


class Preparations:
    """The preparations of some agents, to be asked about images. It does not change."""

    def __init__(self, every: Iterable[Preparation] = ()) -> None:
        self._by_agent: dict[str, list[Preparation]] = defaultdict(list)
        for each in every:
            self._by_agent[each.agent_id].append(each)

    def against(self, agent_id: str, keys: ImageKeys) -> Preparation | None:
        """What is done on this agent to what may be this image."""
        there = self._by_agent.get(agent_id, ())
        return next((each for each in there if each.keys.meets(keys)), None)


def on_agents(conn: Connection, agent_ids: Collection[str] | None) -> Preparations:
    """The preparations on these agents; None is all of them."""
    query = (
        select(preparations, items.c.bytes_done, items.c.bytes_total, items.c.eta_seconds)
        .join(items, items.c.id == preparations.c.item_id)
        .order_by(preparations.c.begun_at, preparations.c.item_id)
    )
    if agent_ids is not None:
        query = query.where(preparations.c.agent_id.in_(agent_ids))
    rows = conn.execute(query).all()
    if not rows:
        return Preparations()
    newest = {
        row.item_id: row.id
        for row in conn.execute(
            select(attempts.c.item_id, attempts.c.id)
            .join(preparations, preparations.c.item_id == attempts.c.item_id)
            .order_by(attempts.c.created_at, attempts.c.id)
        )
    }
    return Preparations(_preparation(row, newest.get(row.item_id)) for row in rows)


def of_task(conn: Connection, task_id: str) -> dict[str, ImageKeys]:
    """The images a task prepares now, by item."""
    rows = conn.execute(select(preparations).where(preparations.c.task_id == task_id))
    return {row.item_id: _keys(row) for row in rows}


def lock(conn: Connection, agent_ids: Collection[str]) -> set[str]:
    """Lock these agents' rows, by ascending id; the ids of those that exist."""
    return set(
        conn.scalars(
            select(agents.c.id)
            .where(agents.c.id.in_(agent_ids))
            .order_by(agents.c.id)
            .with_for_update()
        )
    )


def begin(conn: Connection, item_id: str, kind: PreparationKind, keys: ImageKeys) -> bool:
    """Begin the preparation of an item, under its agent's lock; False when another's meets it."""
    item = conn.execute(
        select(items.c.agent_id, items.c.task_id).where(items.c.id == item_id)
    ).one()
    there = conn.execute(select(preparations).where(preparations.c.agent_id == item.agent_id))
    if met(keys, [_keys(row) for row in there]):
        return False
    conn.execute(
        insert(preparations).values(
            item_id=item_id,
            task_id=item.task_id,
            agent_id=item.agent_id,
            kind=kind,
            reference=keys.reference,
            root_digests=sorted(keys.root_digests),
            image_id=keys.image_id,
            begun_at=now(conn),
        )
    )
    return True


def release(conn: Connection, item_ids: Collection[str]) -> None:
    """Give up the preparations of these items, in the transaction in which they stop running."""
    conn.execute(delete(preparations).where(preparations.c.item_id.in_(item_ids)))


def _keys(row: Row[Any]) -> ImageKeys:
    return ImageKeys(row.reference, frozenset(row.root_digests), row.image_id)


def _preparation(row: Row[Any], attempt_id: str | None) -> Preparation:
    return Preparation(
        item_id=row.item_id,
        task_id=row.task_id,
        agent_id=row.agent_id,
        kind=PreparationKind(row.kind),
        keys=_keys(row),
        begun_at=row.begun_at,
        bytes_done=row.bytes_done,
        bytes_total=row.bytes_total,
        eta_seconds=row.eta_seconds,
        attempt_id=attempt_id,
    )
