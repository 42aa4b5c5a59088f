"""Groups of users: plain names, which exist as long as somebody is in them."""

import re
from collections import defaultdict
from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, delete, select

from wharfinger.domain.errors import InvalidRequest, UnknownId
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import user_groups, users

_CHANGED_AT_ONCE: Final = 100
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


def check_name(name: str) -> None:
    """Raise `InvalidRequest` unless a group can be named so."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            "A group's name begins with a letter or a digit and has at most 64 letters, digits"
            " and . _ @ + -",
            name=name[:64],
        )


def change(
    conn: Connection, name: str, add: Collection[str], remove: Collection[str]
) -> tuple[str, ...]:
    """Put the user named so into groups and take them out of others; their groups after that.

    Being in one already, or not, is fine. Raises `UnknownId`, and `InvalidRequest` for a name that
    is none or stands in both, and for no group or too many.
    """
    if not 1 <= len(add) + len(remove) <= _CHANGED_AT_ONCE:
        raise InvalidRequest(f"1 to {_CHANGED_AT_ONCE} groups are changed at once", name=name)
    for group in (*add, *remove):
        check_name(group)
    if both := sorted(set(add) & set(remove)):
        raise InvalidRequest(f"{both[0]!r} is to be added and removed at once", name=both[0])
    user_id = conn.scalar(select(users.c.id).where(users.c.name == name).with_for_update())
    if user_id is None:
        raise UnknownId(f"There is no user {name!r}", id=name)
    for group in add:
        put(conn, user_groups, {"user_id": user_id, "name": group}, {})
    conn.execute(
        delete(user_groups).where(user_groups.c.user_id == user_id, user_groups.c.name.in_(remove))
    )
    return of_user(conn, user_id)


def of_user(conn: Connection, user_id: str) -> tuple[str, ...]:
    """The groups of one user, by name."""
    found = select(user_groups.c.name).where(user_groups.c.user_id == user_id)
    return tuple(conn.scalars(found.order_by(user_groups.c.name)))


def of_users(conn: Connection) -> dict[str, tuple[str, ...]]:
    """The groups of every user who is in any, by the user's id."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for row in conn.execute(select(user_groups).order_by(user_groups.c.name)):
        found[row.user_id].append(row.name)
    return {user_id: tuple(names) for user_id, names in found.items()}
