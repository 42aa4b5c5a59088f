"""SQLite: files that cannot be used, and what else only it does."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from wharfinger.manager.storage.errors import StorageUnavailable
from wharfinger.manager.storage.migrate import migrate
from wharfinger.manager.storage.opening import open_storage
from wharfinger.manager.storage.port import Storage


def setting(conn: Connection, name: str) -> int | str:
    value: int | str = conn.execute(text(f"PRAGMA {name}")).scalar_one()
    return value


async def test_a_file_that_cannot_be_opened_is_named_unavailable(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'no such folder' / 'database'}"
    with pytest.raises(StorageUnavailable, match="unable to open database file"):
        migrate(url)
    storage = open_storage(url)
    with pytest.raises(StorageUnavailable, match="unable to open database file"):
        await storage.read(setting, "user_version")
    await storage.close()


async def test_a_file_that_is_no_database_is_named_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("Dear harbour master, " * 100)
    storage = open_storage(f"sqlite:///{path}")
    with pytest.raises(StorageUnavailable, match="not a database"):
        await storage.write(setting, "user_version")
    await storage.close()


@pytest.mark.parametrize(
    ("name", "value"), [("journal_mode", "wal"), ("foreign_keys", 1), ("synchronous", 2)]
)
async def test_commits_are_durable_and_checked(
    sqlite_storage: Storage, name: str, value: int | str
) -> None:
    assert await sqlite_storage.write(setting, name) == value


async def test_a_defect_in_our_sql_is_not_called_an_outage(sqlite_storage: Storage) -> None:
    with pytest.raises(Exception, match="no such table") as defect:
        await sqlite_storage.read(lambda conn: conn.execute(text("SELECT 1 FROM nowhere")).all())
    assert not isinstance(defect.value, StorageUnavailable)
