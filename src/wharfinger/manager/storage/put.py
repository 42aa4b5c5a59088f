"""Insert a row, or replace what it holds: in one statement, whoever else does the same."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

_INSERT: Final[dict[str, Callable[[Table], sqlite.Insert | postgresql.Insert]]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}


def put(
    conn: Connection,
    table: Table,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    **when_new: Any,
) -> None:
    """The row of this primary key with these values; `when_new` too when it was not there."""
    statement = _INSERT[conn.dialect.name](table).values(**key, **values, **when_new)
    columns = [table.c[name] for name in key]
    conn.execute(
        statement.on_conflict_do_update(index_elements=columns, set_=dict(values))
        if values
        else statement.on_conflict_do_nothing(index_elements=columns)
    )
