"""SQLite: one writer thread, a few readers, no server."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError

from wharfinger.manager.storage.errors import StorageUnavailable, constraint_violated
from wharfinger.manager.storage.threads import Threads

P = ParamSpec("P")
T = TypeVar("T")

_READERS: Final = 3
_BUSY_SECONDS: Final = 5.0  # how long another process (a backup, a migration) may hold the lock
_UNAVAILABLE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
    }
)


class SqliteStorage:
    """The storage port on a SQLite file.

    A write begins with BEGIN IMMEDIATE: it has the database to itself from its first statement, so
    that what it read cannot change before it writes, and it is never run twice. Reads see the
    snapshot of their first statement, beside the writer (WAL).
    """

    def __init__(self, url: URL) -> None:
        self._write_engine = sqlite_engine(url, begin="BEGIN IMMEDIATE")
        self._read_engine = sqlite_engine(url, begin="BEGIN", query_only=True)
        self._writer = Threads("sqlite-writer", 1)
        self._readers = Threads("sqlite-reader", _READERS)

    async def write(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """See the port."""
        return await self._writer.run(
            lambda: transact(self._write_engine, lambda conn: function(conn, *args, **kwargs))
        )

    async def read(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """See the port."""
        return await self._readers.run(
            lambda: transact(self._read_engine, lambda conn: function(conn, *args, **kwargs))
        )

    async def close(self) -> None:
        """See the port."""
        self._writer.refuse()
        self._readers.refuse()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.join()
        self._writer.join()
        self._read_engine.dispose()
        self._write_engine.dispose()


def sqlite_engine(
    url: URL, *, begin: str, query_only: bool = False, foreign_keys: bool = True
) -> Engine:
    """An engine whose transactions begin with the statement `begin`.

    The driver's own transaction control is off (`isolation_level=None`): it begins late and
    deferred, and so loses updates without a word.
    """
    engine = create_engine(
        url,
        connect_args={"isolation_level": None, "timeout": _BUSY_SECONDS},
        hide_parameters=True,
    )

    # synchronous stays at its default, FULL: a commit that was acknowledged survives a power cut.
    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA foreign_keys = {int(foreign_keys)}")
        connection.execute(f"PRAGMA query_only = {int(query_only)}")

    @event.listens_for(engine, "begin")
    def begin_transaction(conn: Connection) -> None:
        conn.exec_driver_sql(begin)

    return engine


def transact(engine: Engine, function: Callable[[Connection], T]) -> T:
    """Run a transaction once; drivers' errors translated."""
    try:
        with engine.begin() as conn:
            return function(conn)
    except IntegrityError as error:
        raise constraint_violated(error) from error
    except DBAPIError as error:
        raise _unavailable(error) or error from error


def _unavailable(error: DBAPIError) -> StorageUnavailable | None:
    """What a person is told when the file cannot be used; none when our SQL is at fault."""
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # without the extended part
    if code not in _UNAVAILABLE:
        return None
    return StorageUnavailable(f"The database cannot be used at the moment: {error.orig}")
