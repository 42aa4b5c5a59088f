"""The cluster's id: it marks the containers that are this cluster's and no other's."""

from sqlalchemy import Connection, insert, select

from wharfinger.manager.identifiers import new_id
from wharfinger.manager.storage.tables import cluster


def identify(conn: Connection) -> str:
    """The id, made when it is first asked for."""
    known: str | None = conn.scalar(select(cluster.c.id))
    if known is not None:
        return known
    made = new_id()
    conn.execute(insert(cluster).values(id=made))
    return made
