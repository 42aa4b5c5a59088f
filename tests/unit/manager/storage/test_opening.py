"""Which URLs name a database."""

import sys

import pytest

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.storage.errors import UnsupportedDatabase
from wharfinger.manager.storage.migrate import migrate
from wharfinger.manager.storage.opening import database_url, open_storage
from wharfinger.manager.storage.postgresql import PostgresqlStorage
from wharfinger.manager.storage.sqlite import SqliteStorage


@pytest.mark.parametrize(
    ("url", "adapter"),
    [
        ("sqlite:////var/lib/wharfinger/database", SqliteStorage),
        ("postgresql+psycopg://ann:secret@db.example:5432/wharfinger", PostgresqlStorage),
        ("postgresql://db.example/wharfinger", PostgresqlStorage),
    ],
)
async def test_a_url_opens_its_adapter_without_connecting(url: str, adapter: type) -> None:
    storage = open_storage(url)
    assert isinstance(storage, adapter)
    await storage.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "wharfinger.db",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://ann:secret@db.example/wharfinger",
        "postgresql+asyncpg://ann:secret@db.example/wharfinger",
    ],
)
def test_another_url_is_refused_in_words_that_hold_no_password(url: str) -> None:
    with pytest.raises(UnsupportedDatabase) as refused:
        database_url(url)
    assert isinstance(refused.value, InvalidRequest)
    assert "secret" not in str(refused.value)


def test_without_the_driver_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UnsupportedDatabase, match=r"wharfinger\[postgresql\]"):
        open_storage("postgresql://db.example/wharfinger")
    with pytest.raises(UnsupportedDatabase, match=r"wharfinger\[postgresql\]"):
        migrate("postgresql://db.example/wharfinger")
