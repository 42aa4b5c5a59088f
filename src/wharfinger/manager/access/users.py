"""Users. A superadmin may do everything; there is always at least one."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select

from wharfinger.domain.errors import Conflict, InvalidRequest, UnknownId
from wharfinger.manager.access import grants, groups
from wharfinger.manager.access.limits import LimitChanges, Limits, set_limits
from wharfinger.manager.access.principal import Role
from wharfinger.manager.access.tokens import IssuedToken, create_token
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import sessions, users

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class UserView:
    """A user, and what they may occupy."""

    id: str
    name: str
    role: Role
    created_at: float
    limits: Limits = field(default_factory=Limits)
    groups: tuple[str, ...] = ()


def add_user(conn: Connection, name: str, role: str) -> UserView:
    """A new user without a token; raises `InvalidRequest`, or `Conflict` when the name is taken."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            "A user's name begins with a letter or a digit and has at most 64 letters, digits"
            " and . _ @ + -",
            name=name[:64],
        )
    if role not in list(Role):
        raise InvalidRequest(f"A role is one of {', '.join(Role)}, not {role[:64]!r}", role=role)
    if _find(conn, name) is not None:
        raise Conflict(f"There is a user {name!r} already", name=name)
    user = UserView(new_id(), name, Role(role), now(conn))
    conn.execute(
        insert(users).values(
            id=user.id, name=user.name, role=user.role.value, created_at=user.created_at
        )
    )
    return user


def list_users(conn: Connection) -> list[UserView]:
    """All users, by name."""
    by_id = groups.of_users(conn)
    rows = conn.execute(select(users).order_by(users.c.name))
    return [_user(row, by_id.get(row.id, ())) for row in rows]


def remove_user(conn: Connection, name: str) -> UserView:
    """Remove a user and their tokens; raises `UnknownId`, or `Conflict` for the last superadmin and
    for a user whose sessions have not all ended."""
    # locked, so that two removals at once cannot each leave the other as the last
    superadmins = conn.scalars(
        select(users.c.name).where(users.c.role == Role.SUPERADMIN.value).with_for_update()
    ).all()
    user = show_user(conn, name)
    if list(superadmins) == [name]:
        raise Conflict(f"{name!r} is the last superadmin: make another one first", name=name)
    # whoever creates a session locks its owner's row as well
    conn.execute(select(users.c.id).where(users.c.id == user.id).with_for_update())
    _refuse_with_sessions(conn, user)
    grants.outlive(conn, user.name, user.id)
    conn.execute(delete(users).where(users.c.id == user.id))
    return user


def limit_user(conn: Connection, name: str, changes: LimitChanges) -> UserView:
    """Change what a user may occupy; raises `UnknownId` or `InvalidRequest`."""
    set_limits(conn, name, changes)
    return show_user(conn, name)


def show_user(conn: Connection, name: str) -> UserView:
    """The user named so; raises `UnknownId`."""
    user = _find(conn, name)
    if user is None:
        raise UnknownId(f"There is no user {name!r}", id=name)
    return user


def ensure_superadmin(conn: Connection, name: str) -> IssuedToken | None:
    """Make the first superadmin and a token for it; None when there is a superadmin already."""
    present = select(users.c.id).where(users.c.role == Role.SUPERADMIN.value)
    if conn.execute(present).first() is not None:
        return None
    add_user(conn, name, Role.SUPERADMIN)
    return create_token(conn, name, "first superadmin")


def user_id(conn: Connection, name: str) -> str | None:
    """The id of the user named so, if there is one."""
    user = _find(conn, name)
    return None if user is None else user.id


def user_names(conn: Connection, ids: Collection[str] | None = None) -> dict[str, str]:
    """The names of these users, or of all for None, by id; of those who are gone there is none."""
    query = select(users.c.id, users.c.name)
    if ids is not None:
        query = query.where(users.c.id.in_(ids))
    return {row.id: row.name for row in conn.execute(query)}


def _find(conn: Connection, name: str) -> UserView | None:
    row = conn.execute(select(users).where(users.c.name == name)).one_or_none()
    return None if row is None else _user(row, groups.of_user(conn, row.id))


def _refuse_with_sessions(conn: Connection, user: UserView) -> None:
    live = conn.scalars(
        select(sessions.c.id)
        .where(sessions.c.owner_id == user.id, sessions.c.ended_at.is_(None))
        .order_by(sessions.c.created_at)
    ).all()
    if live:
        raise Conflict(
            f"{user.name!r} has sessions that have not ended: {', '.join(live[:_NAMED])}"
            f"{', …' if len(live) > _NAMED else ''}; terminate them first",
            name=user.name,
            sessions=list(live),
        )


def _user(row: Row[Any], in_groups: tuple[str, ...]) -> UserView:
    return UserView(row.id, row.name, Role(row.role), row.created_at, Limits.of(row), in_groups)
