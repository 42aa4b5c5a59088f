"""Changing a state: compare-and-set, and a row in the transition log.

The only way a status column changes after its row was inserted.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, bindparam, insert, select, update

from wharfinger.domain.states import S, TransitionTable
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import transitions


class Transition(NamedTuple):
    """One row of the log. `source` is none for a thing's first state; `number` grows from row to
    row of one thing."""

    source: str | None
    target: str
    at: float
    reason: str
    by: str
    number: int = 0


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


def move_all(
    conn: Connection,
    table: Table,
    machine: TransitionTable[S],
    values: Mapping[str, Mapping[str, Any]],
    source: S,
    target: S,
    *,
    reason: str,
    by: str,
    **shared: Any,
) -> set[str]:
    """`move` for many rows at once, in few statements; the ids of those that were in `source` and
    moved. Each gets its own values (the same names for all) and the `shared` ones."""
    machine.check(source, target)
    found = set(
        conn.scalars(
            select(table.c.id)
            .where(table.c.id.in_(values), table.c.status == source)
            .order_by(table.c.id)
            .with_for_update()
        ).all()
    )
    if found:
        ids = sorted(found)
        names = next(iter(values.values())).keys()
        conn.execute(
            update(table)
            .where(table.c.id == bindparam("row_id"))
            .values({name: bindparam(f"to_{name}") for name in names}),
            [
                {"row_id": row_id, **{f"to_{name}": values[row_id][name] for name in names}}
                for row_id in ids
            ],
        )
        conn.execute(update(table).where(table.c.id.in_(ids)).values(status=target.value, **shared))
        _log(conn, machine, ids, source, target, reason, by)
    return found


def history(conn: Connection, entity: str, entity_id: str) -> list[Transition]:
    """The log of one thing, oldest first. `entity` is the name of its machine."""
    return histories(conn, entity, (entity_id,)).get(entity_id, [])


def histories(
    conn: Connection, entity: str, entity_ids: Collection[str]
) -> dict[str, list[Transition]]:
    """The logs of many things of one machine, by id, each oldest first."""
    rows = conn.execute(
        select(
            transitions.c.entity_id,
            transitions.c["from"],
            transitions.c["to"],
            transitions.c.at,
            transitions.c.reason,
            transitions.c.by,
            transitions.c.id,
        )
        .where(transitions.c.entity == entity, transitions.c.entity_id.in_(entity_ids))
        .order_by(transitions.c.id)
    )
    logs: dict[str, list[Transition]] = {}
    for entity_id, *row in rows:
        logs.setdefault(entity_id, []).append(Transition(*row))
    return logs


def _log(
    conn: Connection,
    machine: TransitionTable[S],
    entity_ids: Collection[str],
    source: str | None,
    target: S,
    reason: str,
    by: str,
) -> None:
    row = {
        "entity": machine.name,
        "from": source,
        "to": target.value,
        "reason": reason,
        "by": by,
        "at": now(conn),
    }
    conn.execute(
        insert(transitions).values(entity_id=bindparam("of"), **row),
        [{"of": entity_id} for entity_id in entity_ids],
    )
