"""Changing a state: compare-and-set, and a row in the transition log.

The only way a status column changes after its row was inserted.
"""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, insert, select, update

from wharfinger.domain.states import S, TransitionTable
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import transitions


class Transition(NamedTuple):
    """One row of the log. `source` is none for a thing's first state."""

    source: str | None
    target: str
    at: float
    reason: str
    by: str


def begin(
    conn: Connection, machine: TransitionTable[S], entity_id: str, *, reason: str, by: str
) -> None:
    """Log that a thing began to exist in its machine's initial state."""
    begin_all(conn, machine, (entity_id,), reason=reason, by=by)


def begin_all(
    conn: Connection,
    machine: TransitionTable[S],
    entity_ids: Collection[str],
    *,
    reason: str,
    by: str,
) -> None:
    """`begin` for many things at once: one, at least."""
    _log(conn, machine, entity_ids, None, machine.initial, reason, by)


def move(
    conn: Connection,
    table: Table,
    machine: TransitionTable[S],
    entity_id: str,
    sources: Iterable[S],
    target: S,
    *,
    reason: str,
    by: str,
    **values: Any,
) -> bool:
    """Move one row from one of `sources` to `target`, setting `values` with it.

    False when its present state is none of `sources` (or it does not exist): nothing changed, and
    the caller's news is stale. Raises `IllegalTransition` when the table does not allow the move
    from one of `sources`.
    """
    sources = tuple(sources)
    machine.check_sources(sources, target)
    present = conn.execute(
        select(table.c.status).where(table.c.id == entity_id).with_for_update()
    ).scalar_one_or_none()
    if present not in sources:
        return False
    changed = conn.execute(
        update(table)
        .where(table.c.id == entity_id, table.c.status == present)
        .values(status=target.value, **values)
    )
    if changed.rowcount != 1:
        return False
    _log(conn, machine, (entity_id,), present, target, reason, by)
    return True


def history(conn: Connection, entity: str, entity_id: str) -> list[Transition]:
    """The log of one thing, oldest first. `entity` is the name of its machine."""
    rows = conn.execute(
        select(
            transitions.c["from"],
            transitions.c["to"],
            transitions.c.at,
            transitions.c.reason,
            transitions.c.by,
        )
        .where(transitions.c.entity == entity, transitions.c.entity_id == entity_id)
        .order_by(transitions.c.id)
    )
    return [Transition(*row) for row in rows]


def _log(
    conn: Connection,
    machine: TransitionTable[S],
    entity_ids: Collection[str],
    source: str | None,
    target: S,
    reason: str,
    by: str,
) -> None:
    at = now(conn)
    conn.execute(
        insert(transitions),
        [
            {
                "entity": machine.name,
                "entity_id": entity_id,
                "from": source,
                "to": target.value,
                "reason": reason,
                "by": by,
                "at": at,
            }
            for entity_id in entity_ids
        ],
    )
