"""Migrations: they end where `tables.py` is, in one step, whoever else starts at the same time."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from rig.postgres import Postgres
from sqlalchemy import Connection, create_engine, inspect, text

from wharfinger.manager.storage.errors import NewerDatabase
from wharfinger.manager.storage.migrate import alembic_config, migrate
from wharfinger.manager.storage.tables import metadata


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.fresh_database()


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.begin() as conn:
            yield conn
    finally:
        engine.dispose()


def shape(conn: Connection) -> dict[str, dict[str, list[Any]]]:
    """All the database itself knows of the tables, in an order of its own."""
    about = inspect(conn)

    def described(table: str) -> dict[str, list[Any]]:
        return {
            "columns": sorted(
                ({**c, "type": str(c["type"])} for c in about.get_columns(table)),
                key=lambda column: str(column["name"]),
            ),
            "primary key": [about.get_pk_constraint(table)],
            "foreign keys": sorted(about.get_foreign_keys(table), key=str),
            "unique": sorted(about.get_unique_constraints(table), key=str),
            "checks": sorted(about.get_check_constraints(table), key=str),
            "indexes": sorted(about.get_indexes(table), key=str),
        }

    return {table: described(table) for table in metadata.tables}


def test_all_migrations_together_make_the_tables_of_the_code(
    empty_url: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if empty_url.startswith("sqlite"):
        created_url = f"sqlite:///{tmp_path / 'created'}"
    else:
        created_url = request.getfixturevalue("postgres").fresh_database()
    migrate(empty_url)
    with connected(empty_url) as migrated, connected(created_url) as created:
        metadata.create_all(created)
        assert compare_metadata(MigrationContext.configure(migrated), metadata) == []
        by_steps, by_tables = shape(migrated), shape(created)
    for table, described in by_tables.items():
        for part, expected in described.items():
            assert by_steps[table][part] == expected, f"{part} of {table}"


TASK = """
INSERT INTO tasks (id, name, owner_id, status, cancel_requested, current, total, unit, message,
    function, arguments, epoch, created_at)
VALUES (:name, :name, 'u', 'running', false, 0, 0, 'items', '', :name, '{}', 1, 0)
"""
ITEM = """
INSERT INTO items (id, task_id, agent_id, reference, root_digest, status, phase, attempts,
    bytes_done, bytes_total, kept_by)
VALUES (:id, :task, 'a-1', :reference, 'sha256:1', 'running', 'waiting', 1, 0, 0, '[]')
"""


def test_what_was_under_way_before_there_was_a_gate_stands_in_it(empty_url: str) -> None:
    with connected(empty_url) as conn:
        command.upgrade(alembic_config(conn), "0002")
    with connected(empty_url) as conn:
        for name in ("preload", "unload"):
            conn.execute(text(TASK), {"name": name})
        for item_id, task, reference in (
            ("i1", "preload", "h/a:1"),
            ("i2", "unload", "h/b:1"),
        ):
            conn.execute(text(ITEM), {"id": item_id, "task": task, "reference": reference})
        image = "INSERT INTO images VALUES ('h:1/x/a:v1@sha256:2', 'sha256:2', 7, 0)"
        conn.execute(text(image))
    migrate(empty_url)
    with connected(empty_url) as conn:
        there = conn.execute(text("SELECT item_id, task_id, agent_id, kind FROM preparations"))
        assert [tuple(row) for row in there] == [("i1", "preload", "a-1", "preload")]
        statuses = conn.execute(text("SELECT id, status FROM items ORDER BY id"))
        assert [tuple(row) for row in statuses] == [("i1", "running"), ("i2", "queued")]
        categories = conn.execute(text("SELECT id, category FROM tasks ORDER BY id"))
        assert [tuple(row) for row in categories] == [("preload", "download"), ("unload", None)]
        named = conn.execute(text("SELECT registry, repository, status FROM images"))
        assert [tuple(row) for row in named] == [("h:1", "h:1/x/a", "known")]


def test_a_database_at_head_is_left_as_it_is(storage_url: str) -> None:
    with connected(storage_url) as conn:
        conn.execute(text("INSERT INTO cluster VALUES ('c1')"))
    migrate(storage_url)
    with connected(storage_url) as conn:
        assert conn.execute(text("SELECT id FROM cluster")).scalars().all() == ["c1"]


def test_a_database_used_by_a_newer_version_is_refused(storage_url: str) -> None:
    with connected(storage_url) as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerDatabase, match=r"newer version.*step 9999") as refused:
        migrate(storage_url)
    assert refused.value.detail == {"step": "9999"}


def test_managers_that_start_at_once_take_turns(empty_url: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(3) as managers:
        managers.map(migrate, [empty_url] * 3, chunksize=1)
        managers.close()
        managers.join()
    with connected(empty_url) as conn:
        assert len(MigrationContext.configure(conn).get_current_heads()) == 1


def test_a_step_that_fails_leaves_nothing_behind(empty_url: str) -> None:
    with connected(empty_url) as conn:
        conn.execute(text("CREATE TABLE attempts (in_the_way INTEGER)"))
    with pytest.raises(Exception, match="already exists"):
        migrate(empty_url)
    with connected(empty_url) as conn:
        assert inspect(conn).get_table_names() == ["attempts"]
