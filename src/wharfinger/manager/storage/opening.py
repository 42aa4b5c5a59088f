"""From a URL to the storage it names."""

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from wharfinger.manager.storage.errors import UnsupportedDatabase
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.postgresql import PostgresqlStorage
from wharfinger.manager.storage.sqlite import SqliteStorage


def open_storage(url: str) -> Storage:
    """The storage of `sqlite:///path` or `postgresql+psycopg://user:password@host:port/database`.

    It connects with the first transaction; `migrate` comes before. Raises `UnsupportedDatabase`.
    """
    database = database_url(url)
    if database.get_backend_name() == "sqlite":
        return SqliteStorage(database)
    return PostgresqlStorage(database)


def database_url(url: str) -> URL:
    """The URL checked. `postgresql://` means our driver too. Raises `UnsupportedDatabase`."""
    try:
        database = make_url(url)
    except ArgumentError as error:
        raise UnsupportedDatabase from error
    match database.drivername:
        case "sqlite" if database.database in {None, "", ":memory:"}:
            raise UnsupportedDatabase("The SQLite database needs a file: sqlite:///path")
        case "sqlite" | "postgresql+psycopg":
            return database
        case "postgresql":
            return database.set(drivername="postgresql+psycopg")
        case other:
            raise UnsupportedDatabase(
                f"{other!r} is not supported: use sqlite:///path or postgresql+psycopg://host/name"
            )
