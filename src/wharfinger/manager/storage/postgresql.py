"""PostgreSQL: a pool of threads, for any number of managers."""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.exc import IntegrityError, OperationalError

from wharfinger.manager.storage.errors import (
    OutcomeUnknown,
    StorageUnavailable,
    UnsupportedDatabase,
    constraint_violated,
)
from wharfinger.manager.storage.threads import Threads

P = ParamSpec("P")
T = TypeVar("T")

_WRITERS: Final = 4
_READERS: Final = 4
# A manager keeps this many connections and opens others for as long as work waits: where the
# server's limit is low, managers share it instead of starving one another.
_KEPT_CONNECTIONS: Final = 1
_PATIENCE_SECONDS: Final = 10.0  # how long a lost database is waited for
_COLLISIONS_BORNE: Final = 30  # by one transaction
_LONGEST_PAUSE_SECONDS: Final = 0.25
_COLLISIONS: Final = frozenset({"40001", "40P01"})  # serialization_failure, deadlock_detected


class PostgresqlStorage:
    """The storage port on a PostgreSQL database.

    Writes are SERIALIZABLE. READ COMMITTED would lose updates wherever a function reads before it
    writes and forgot a lock. REPEATABLE READ would not, but keeps the snapshot of its first
    statement, so "lock the agent's row, then check, then write" would check what was true before
    it had the lock. Under SERIALIZABLE a function means the same here as on SQLite; the price is
    that one of two that collide runs again.

    Reads are REPEATABLE READ, READ ONLY: one snapshot, no predicate locks, never run again for
    a collision.

    Nothing relies on the session (a transaction-mode pooler may stand between): isolation goes
    with BEGIN, and statements are not prepared on the server.
    """

    def __init__(self, url: URL, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._engine = postgresql_engine(url)
        self._write_engine = self._engine.execution_options(isolation_level="SERIALIZABLE")
        self._read_engine = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._writers = Threads("postgresql-writer", _WRITERS)
        self._readers = Threads("postgresql-reader", _READERS)
        self._patience_seconds = patience_seconds
        self._closing = threading.Event()

    async def write(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """See the port. Raises `OutcomeUnknown` when the connection is lost in the commit."""
        return await self._writers.run(
            lambda: self._transact(self._write_engine, lambda conn: function(conn, *args, **kwargs))
        )

    async def read(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """See the port."""
        return await self._readers.run(
            lambda: self._transact(self._read_engine, lambda conn: function(conn, *args, **kwargs))
        )

    async def close(self) -> None:
        """See the port. Who waits for a lost database waits no longer."""
        self._closing.set()
        self._writers.refuse()
        self._readers.refuse()
        await asyncio.to_thread(self._close)

    def _transact(self, engine: Engine, function: Callable[[Connection], T]) -> T:
        return transact(
            engine, function, patience_seconds=self._patience_seconds, closing=self._closing
        )

    def _close(self) -> None:
        self._readers.join()
        self._writers.join()
        self._engine.dispose()


def postgresql_engine(url: URL) -> Engine:
    """An engine that leaves nothing in a session and notices a dead server.

    Raises `UnsupportedDatabase` where the driver is not installed.
    """
    try:
        return create_engine(
            url,
            pool_size=_KEPT_CONNECTIONS,
            max_overflow=_WRITERS + _READERS - _KEPT_CONNECTIONS,
            pool_use_lifo=True,
            connect_args={
                "application_name": "wharfinger",
                "connect_timeout": 5,
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 15_000,
                "prepare_threshold": None,
            },
            use_native_hstore=False,
            hide_parameters=True,
        )
    except ModuleNotFoundError as error:
        raise UnsupportedDatabase(
            "PostgreSQL needs its driver: install wharfinger[postgresql]"
        ) from error


def transact(
    engine: Engine,
    function: Callable[[Connection], T],
    *,
    patience_seconds: float = _PATIENCE_SECONDS,
    closing: threading.Event | None = None,
) -> T:
    """Run a transaction until it is committed, or hopeless. Setting `closing` ends the patience.

    Raises `StorageUnavailable` when no server is found for `patience_seconds`, when the
    transaction collided too often, or when the server lacks a resource.
    """
    closing = closing or threading.Event()
    give_up_at = time.monotonic() + patience_seconds
    tries = collisions = 0
    while True:
        tries += 1
        try:
            return _run_once(engine, function)
        except IntegrityError as error:
            raise constraint_violated(error) from error
        except OperationalError as error:
            if _collided(error):
                collisions += 1
                hopeless = collisions == _COLLISIONS_BORNE
            else:
                out_of_time = closing.is_set() or time.monotonic() > give_up_at
                hopeless = out_of_time or not _lost(error)
            if hopeless:
                raise _unavailable(error) from error
            closing.wait(_pause(tries))


def _run_once(engine: Engine, function: Callable[[Connection], T]) -> T:
    committing = False
    try:
        with engine.begin() as conn:
            result = function(conn)
            committing = True
        return result  # noqa: TRY300  the commit stands between
    except OperationalError as error:
        if committing and _lost(error):
            raise OutcomeUnknown from error
        raise


def _collided(error: OperationalError) -> bool:
    return getattr(error.orig, "sqlstate", None) in _COLLISIONS


def _lost(error: OperationalError) -> bool:
    """No connection came about (then no SQLSTATE is told), or it broke."""
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) is None


def _pause(tries: int) -> float:
    longest = min(0.001 * 2 ** min(tries, 10), _LONGEST_PAUSE_SECONDS)
    return random.uniform(0, longest)  # noqa: S311  (no secret: it parts those that collided)


def _unavailable(error: OperationalError) -> StorageUnavailable:
    in_one_line = " ".join(str(error.orig).split())
    return StorageUnavailable(f"The database cannot be used at the moment: {in_one_line}")
