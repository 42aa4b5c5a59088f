"""The database's clock: the only one that times are taken from."""

from sqlalchemy import Connection, text

_SQL = {
    "sqlite": text("SELECT (julianday('now') - 2440587.5) * 86400.0"),
    "postgresql": text("SELECT extract(epoch FROM clock_timestamp())::float8"),
}


def now(conn: Connection) -> float:
    """Seconds since the epoch, UTC."""
    return float(conn.execute(_SQL[conn.dialect.name]).scalar_one())
