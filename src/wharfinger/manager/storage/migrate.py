"""Bringing a database to the shape that this version's code knows."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from wharfinger.manager.storage import postgresql, sqlite
from wharfinger.manager.storage.errors import NewerDatabase, StorageUnavailable
from wharfinger.manager.storage.opening import database_url

_FOLDER: Final = Path(__file__).with_name("migrations")
_ADVISORY_LOCK: Final = 7_730_211_961  # any number of our own


def migrate(url: str) -> None:
    """Take every step that the database has not taken: all in one transaction, or none.

    Managers that start at once take turns. Blocks. Raises `NewerDatabase` when a step was taken
    that this version does not know, `StorageUnavailable` and `UnsupportedDatabase`.
    """
    database = database_url(url)
    if database.get_backend_name() == "sqlite":
        # A step that builds a table anew drops the old one, which would take along what refers
        # to it: SQLite wants its foreign keys off meanwhile, and checked in the end.
        engine = sqlite.sqlite_engine(database, begin="BEGIN IMMEDIATE", foreign_keys=False)
        transact, upgrade = sqlite.transact, _upgrade_sqlite
    else:
        # Each statement sees what was committed before it, so the lock's former holder's steps.
        engine = postgresql.postgresql_engine(database).execution_options(
            isolation_level="READ COMMITTED"
        )
        transact, upgrade = postgresql.transact, _upgrade_postgresql
    try:
        transact(engine, upgrade)
    finally:
        engine.dispose()


def alembic_config(conn: Connection) -> Config:
    """What Alembic's commands need to work on `conn`."""
    config = Config(attributes={"connection": conn})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("file_template", "r%%(rev)s_%%(slug)s")
    return config


def _upgrade_sqlite(conn: Connection) -> None:
    _upgrade(conn)
    broken = conn.execute(text("PRAGMA foreign_key_check")).all()
    if broken:
        raise StorageUnavailable(f"A migration would break foreign keys: {broken[:10]}")


def _upgrade_postgresql(conn: Connection) -> None:
    conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    _upgrade(conn)


def _upgrade(conn: Connection) -> None:
    config = alembic_config(conn)
    known = {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}
    for taken in MigrationContext.configure(conn).get_current_heads():
        if taken not in known:
            raise NewerDatabase(
                f"A newer version of Wharfinger has used this database (step {taken}, which this"
                " version does not know). Run that version, or restore a backup of before.",
                step=taken,
            )
    command.upgrade(config, "head")
