"""Who did what: rows that are only ever added, in the transaction of the deed itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert, select

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import audit


class Action(StrEnum):
    """What people do. The words are stored, and filtered by."""

    IMAGE_PRELOAD = "image.preload"
    IMAGE_UNLOAD = "image.unload"
    IMAGE_REGISTER = "image.register"
    IMAGE_FORGET = "image.forget"
    IMAGE_PROTECT = "image.protect"
    IMAGE_UNPROTECT = "image.unprotect"
    IMAGE_RESCAN = "image.rescan"
    REGISTRY_ADD = "registry.add"
    REGISTRY_REMOVE = "registry.remove"
    REGISTRY_GRANT = "registry.grant"
    REGISTRY_REVOKE = "registry.revoke"
    SESSION_CREATE = "session.create"
    SESSION_TERMINATE = "session.terminate"
    SESSION_CANCEL = "session.cancel"
    TASK_CANCEL = "task.cancel"
    AGENT_CORDON = "agent.cordon"
    AGENT_UNCORDON = "agent.uncordon"
    AGENT_REMOVE = "agent.remove"
    USER_ADD = "user.add"
    USER_REMOVE = "user.remove"
    USER_LIMIT = "user.limit"
    USER_GROUPS = "user.groups"
    TOKEN_CREATE = "token.create"  # noqa: S105 - a word, no secret
    TOKEN_REVOKE = "token.revoke"  # noqa: S105
    JOIN_TOKEN_CREATE = "join-token.create"  # noqa: S105


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One deed. `target` is what it was done to: a reference, an id, a host, a name. `at` is in
    seconds since the epoch."""

    id: int
    at: float
    actor_id: str
    actor: str
    action: str
    target: str
    detail: Mapping[str, Any] = field(default_factory=dict)


def note(conn: Connection, who: Principal, action: Action, target: str, **detail: Any) -> None:
    """Enter a deed; `detail` is JSON-ready and holds no secret."""
    conn.execute(
        insert(audit).values(
            at=now(conn),
            actor_id=who.user_id,
            actor=who.name,
            action=action.value,
            target=target,
            detail=detail,
        )
    )


def page(
    conn: Connection,
    *,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
    after: int | None = None,
    limit: int,
) -> list[AuditEntry]:
    """Up to `limit` entries, newest first, older than the one with the id `after`.

    `actor` is a user's name, `target` a part of the text, `action` one of `Action` or its first
    word (`image`). Raises `InvalidRequest` for an action that is none.
    """
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if actor is not None:
        query = query.where(audit.c.actor == actor)
    if action is not None:
        query = query.where(audit.c.action.in_(_actions(action)))
    if target is not None:
        query = query.where(audit.c.target.contains(target, autoescape=True))
    if after is not None:
        query = query.where(audit.c.id < after)
    return [AuditEntry(*row) for row in conn.execute(query)]


def _actions(word: str) -> list[str]:
    found = [each.value for each in Action if word in (each.value, each.value.partition(".")[0])]
    if not found:
        known = sorted({each.value.partition(".")[0] for each in Action} | set(Action))
        raise InvalidRequest(
            f"There is no action {word[:64]!r}; known: {', '.join(known)}", action=word[:64]
        )
    return found
