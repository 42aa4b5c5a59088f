"""Tokens: opaque, random, shown once; only their SHA-256 is stored.

A user's token stands for that user. A join token lets agents join, and nothing else.
"""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from wharfinger.domain.errors import InvalidRequest, Unauthenticated, UnknownId
from wharfinger.manager.access.principal import Principal, Role
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import join_tokens, tokens, users

USER_PREFIX: Final = "whu_"
JOIN_PREFIX: Final = "whj_"
"""What tokens begin with: people tell them apart by it, and logs know what to strike out."""

LONGEST_LABEL: Final = 200


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token. `token` is what the holder sends; it cannot be read again."""

    id: str
    token: str


@dataclass(frozen=True, slots=True)
class TokenView:
    """A user's token, without what is sent. `user` is the name of its user."""

    id: str
    user_id: str
    user: str
    label: str
    created_at: float


_VIEWS: Final = select(
    tokens.c.id,
    tokens.c.user_id,
    users.c.name,
    tokens.c.label,
    tokens.c.created_at,
).join(users, tokens.c.user_id == users.c.id)


def authenticate(conn: Connection, bearer: str | None) -> Principal:
    """Whose token this is; raises `Unauthenticated` saying what is missing."""
    if not bearer:
        raise Unauthenticated(
            "No token was sent: this needs the header `Authorization: Bearer <token>`",
            needs="token",
        )
    row = conn.execute(
        select(users.c.id, users.c.name, users.c.role)
        .join(tokens, tokens.c.user_id == users.c.id)
        .where(tokens.c.sha256 == digest(bearer))
    ).one_or_none()
    if row is None:
        raise Unauthenticated(
            "This token is not known here: it is mistyped, from elsewhere, or was revoked",
            needs="valid-token",
        )
    return Principal(row.id, row.name, Role(row.role))


def create_token(conn: Connection, user: str, label: str) -> IssuedToken:
    """A new token of the user named so; raises `UnknownId` when there is none."""
    user_id = conn.execute(select(users.c.id).where(users.c.name == user)).scalar_one_or_none()
    if user_id is None:
        raise UnknownId(f"There is no user {user!r}", id=user)
    issued = IssuedToken(new_id(), USER_PREFIX + secrets.token_urlsafe(32))
    conn.execute(
        insert(tokens).values(
            id=issued.id,
            user_id=user_id,
            sha256=digest(issued.token),
            label=_checked(label),
            created_at=now(conn),
        )
    )
    return issued


def list_tokens(conn: Connection, *, user_id: str | None = None) -> list[TokenView]:
    """The tokens of one user, or all for None; oldest first."""
    query = _VIEWS.order_by(tokens.c.created_at, tokens.c.id)
    if user_id is not None:
        query = query.where(tokens.c.user_id == user_id)
    return [TokenView(*row) for row in conn.execute(query)]


def show_token(conn: Connection, token_id: str) -> TokenView:
    """One token; raises `UnknownId`."""
    row = conn.execute(_VIEWS.where(tokens.c.id == token_id)).one_or_none()
    if row is None:
        raise UnknownId(f"There is no token {token_id!r}", id=token_id)
    return TokenView(*row)


def revoke_token(conn: Connection, token_id: str) -> TokenView:
    """Make it worthless from now on; raises `UnknownId`."""
    view = show_token(conn, token_id)
    conn.execute(delete(tokens).where(tokens.c.id == token_id))
    return view


def create_join_token(conn: Connection, label: str) -> IssuedToken:
    """A new token that agents may join with."""
    issued = IssuedToken(new_id(), JOIN_PREFIX + secrets.token_urlsafe(32))
    conn.execute(
        insert(join_tokens).values(
            id=issued.id,
            sha256=digest(issued.token),
            label=_checked(label),
            created_at=now(conn),
        )
    )
    return issued


def revoke_join_tokens(conn: Connection, label: str) -> None:
    """Let no agent join with those of this label any more; who did join stays."""
    conn.execute(delete(join_tokens).where(join_tokens.c.label == label))


def join_token_valid(conn: Connection, token: str) -> bool:
    """Whether an agent may join with it."""
    found = conn.execute(select(join_tokens.c.id).where(join_tokens.c.sha256 == digest(token)))
    return found.first() is not None


def digest(token: str) -> str:
    """What is stored of a token. It is random and long, so a plain hash hides it."""
    return hashlib.sha256(token.encode()).hexdigest()


def _checked(label: str) -> str:
    if len(label) > LONGEST_LABEL or not label.isprintable():
        raise InvalidRequest(
            f"A label is at most {LONGEST_LABEL} printable characters", label=label[:LONGEST_LABEL]
        )
    return label
