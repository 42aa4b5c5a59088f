"""PostgreSQL: collisions, servers that go away, few connections, poolers in between."""

import asyncio
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rig.postgres import Postgres
from sqlalchemy import Connection, text

from wharfinger.manager.storage.errors import OutcomeUnknown, StorageUnavailable
from wharfinger.manager.storage.opening import database_url, open_storage
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.postgresql import PostgresqlStorage

PATIENCE = 10.0  # for a signal that must come

COUNT = text("SELECT v FROM counter")
INCREMENT = text("UPDATE counter SET v = v + 1")
KILL_ME = text("SELECT pg_terminate_backend(pg_backend_pid())")
CREATE_DEATH = text(
    "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
)
DIE_IN_COMMIT = text(
    "CREATE CONSTRAINT TRIGGER die AFTER UPDATE ON counter"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"
)


def make_counter(conn: Connection) -> None:
    conn.execute(text("CREATE TABLE counter (v INTEGER NOT NULL)"))
    conn.execute(text("INSERT INTO counter VALUES (0)"))


def count(conn: Connection) -> int:
    return int(conn.execute(COUNT).scalar_one())


def increment(conn: Connection) -> None:
    conn.execute(INCREMENT)


def let_in(conn: Connection) -> None:
    conn.execute(text("GRANT ALL ON counter TO limited"))


def turn_out(conn: Connection) -> None:
    conn.execute(text("REVOKE ALL ON counter FROM limited"))


@pytest.fixture
async def counting(postgresql_url: str) -> AsyncIterator[Storage]:
    storage = open_storage(postgresql_url)
    await storage.write(make_counter)
    yield storage
    await storage.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[Postgres]:
    folder = Path(tempfile.gettempdir()) / f"wharfinger-postgres-{os.getpid()}-own"
    with Postgres(folder) as own:
        yield own


@pytest.fixture
def server(own_server: Postgres) -> Postgres:
    """A server that nobody else uses, to be stopped."""
    if not own_server.running:
        own_server.start()
    return own_server


# --------------------------------------------------------------------- collisions


async def test_a_transaction_that_collided_runs_again_on_what_is_true_now(
    counting: Storage,
) -> None:
    looked, overtaken = threading.Event(), threading.Event()
    seen: list[int] = []

    def look_then_set(conn: Connection) -> int:
        seen.append(count(conn))
        looked.set()
        assert overtaken.wait(PATIENCE)
        conn.execute(text("UPDATE counter SET v = :v"), {"v": seen[-1] + 1})
        return seen[-1]

    slow = asyncio.create_task(counting.write(look_then_set))
    assert await asyncio.to_thread(looked.wait, PATIENCE)
    await counting.write(increment)
    overtaken.set()
    assert await slow == 1
    assert seen == [0, 1]
    assert await counting.read(count) == 2


async def test_a_transaction_that_always_collides_ends_all_the_same(counting: Storage) -> None:
    def collide(conn: Connection) -> None:
        conn.execute(text("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"))

    with pytest.raises(StorageUnavailable):
        await counting.write(collide)


# ----------------------------------------------------------------- lost connections


async def test_a_connection_lost_in_a_transaction_costs_another_run(counting: Storage) -> None:
    runs = 0

    def lose_it_once(conn: Connection) -> None:
        nonlocal runs
        runs += 1
        increment(conn)
        if runs == 1:
            conn.execute(KILL_ME)

    await counting.write(lose_it_once)
    assert runs == 2
    assert await counting.read(count) == 1


async def test_a_connection_lost_in_the_commit_is_not_taken_for_either_outcome(
    counting: Storage,
) -> None:
    def die_in_commit(conn: Connection) -> None:
        conn.execute(CREATE_DEATH)
        conn.execute(DIE_IN_COMMIT)

    await counting.write(die_in_commit)
    with pytest.raises(OutcomeUnknown):
        await counting.write(increment)
    assert await counting.read(count) == 0


async def test_a_server_that_restarts_is_waited_for(server: Postgres) -> None:
    storage = open_storage(server.url)
    await storage.write(make_counter)
    await asyncio.to_thread(server.stop)
    writing = asyncio.create_task(storage.write(increment))
    await asyncio.to_thread(server.start)
    await writing
    assert await storage.read(count) == 1
    await storage.close()


async def test_a_server_that_stays_away_is_named_unavailable(server: Postgres) -> None:
    storage = PostgresqlStorage(database_url(server.url), patience_seconds=0.2)
    await asyncio.to_thread(server.stop)
    with pytest.raises(StorageUnavailable, match="Connection refused"):
        await storage.read(count)
    await storage.close()


async def test_closing_does_not_wait_for_a_server_that_is_away(server: Postgres) -> None:
    storage = PostgresqlStorage(database_url(server.url), patience_seconds=600)
    await asyncio.to_thread(server.stop)
    waiting = [asyncio.create_task(storage.write(increment)) for _ in range(20)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await storage.close()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(end) for end in ends} == {StorageUnavailable}


# ---------------------------------------------------- few connections, and poolers


async def test_managers_share_the_few_connections_there_are(
    postgres: Postgres, counting: Storage, postgresql_url: str
) -> None:
    url = database_url(postgresql_url)
    postgres.sql(f"ALTER DATABASE {url.database} CONNECTION LIMIT 5")
    postgres.sql("CREATE ROLE limited LOGIN")
    await counting.write(let_in)
    managers = [PostgresqlStorage(url.set(username="limited")) for _ in range(3)]
    try:
        await asyncio.gather(*(each.write(increment) for each in managers for _ in range(30)))
        assert await managers[0].read(count) == 90
    finally:
        await asyncio.gather(*(each.close() for each in managers))
        await counting.write(turn_out)
        postgres.sql("DROP ROLE limited")


async def test_nothing_of_ours_stays_in_a_session(counting: Storage) -> None:
    def look_round(conn: Connection) -> tuple[int, str]:
        for _ in range(10):  # a driver's habit is to prepare what comes often
            count(conn)
        prepared = conn.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()
        isolation = conn.execute(text("SHOW default_transaction_isolation")).scalar_one()
        return prepared, isolation

    assert await counting.write(look_round) == (0, "read committed")
    assert await counting.read(look_round) == (0, "read committed")


@pytest.mark.parametrize(
    ("mode", "isolation", "read_only"),
    [("write", "serializable", "off"), ("read", "repeatable read", "on")],
)
async def test_isolation_goes_with_the_transaction(
    counting: Storage, mode: str, isolation: str, read_only: str
) -> None:
    def modes(conn: Connection) -> tuple[str, str]:
        return (
            conn.execute(text("SHOW transaction_isolation")).scalar_one(),
            conn.execute(text("SHOW transaction_read_only")).scalar_one(),
        )

    run = {"write": counting.write, "read": counting.read}[mode]
    assert await run(modes) == (isolation, read_only)
