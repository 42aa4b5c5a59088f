"""The transaction that queues a session, whole or not at all."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, exists, insert, select

from wharfinger.domain.errors import Conflict, Forbidden, InvalidRequest, UnknownId, UnknownSelector
from wharfinger.domain.references import Reference
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import KERNEL_TRANSITIONS
from wharfinger.manager.access import audit
from wharfinger.manager.access.audit import Action
from wharfinger.manager.access.limits import Limits
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.catalogue import entries, resolved
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.sessions import reading
from wharfinger.manager.sessions.requests import SessionRequest
from wharfinger.manager.sessions.views import SessionView
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import agents, kernels, sessions, users
from wharfinger.manager.storage.transitions import begin_all


def create(
    conn: Connection, request: SessionRequest, references: Sequence[Reference], owner: Principal
) -> SessionView:
    """Queue a session whose request was checked; `references` are its kernels'.

    A kernel's root digest is what the catalogue holds now, whatever it comes to hold. Raises
    `FailureError` (`not-found`) for an image its owner may not use, `UnknownSelector` and
    `Forbidden` for its scaling group, `InvalidRequest` for more than its owner's quota would ever
    allow, `Conflict` when the name is taken.
    """
    # locked, so that two sessions made at once cannot both take a name
    row = conn.execute(
        select(users).where(users.c.id == owner.user_id).with_for_update()
    ).one_or_none()
    if row is None:
        raise UnknownId("there is no such user any more", id=owner.user_id)
    for reference in dict.fromkeys(references):
        entries.require(conn, owner, reference)
    _check_group(conn, request.scaling_group, row)
    _check_quota(request, row)
    _check_name(conn, request.name, owner.user_id)
    session_id = new_id()
    name = request.name or f"session-{session_id}"
    at = now(conn)
    conn.execute(
        insert(sessions).values(
            id=session_id,
            name=name,
            owner_id=owner.user_id,
            scaling_group=request.scaling_group,
            created_at=at,
        )
    )
    rows = _kernels(conn, session_id, request, references, owner.user_id, at)
    conn.execute(insert(kernels), rows)
    begin_all(
        conn,
        KERNEL_TRANSITIONS,
        [row["id"] for row in rows],
        reason="asked for",
        by=f"user {owner.name}",
    )
    images = [str(reference) for reference in references]
    audit.note(conn, owner, Action.SESSION_CREATE, session_id, name=name, images=images)
    return reading.one(conn, session_id)


def _check_group(conn: Connection, group: str | None, owner: Row[Any]) -> None:
    if group is None:
        return
    known = conn.scalars(select(agents.c.scaling_group).distinct()).all()
    if group not in known:
        raise UnknownSelector(
            f"there is no scaling group {group!r}; known: {', '.join(sorted(known)) or 'none'}",
            unknown=[group],
            known=sorted(known),
        )
    if owner.scaling_groups is not None and group not in owner.scaling_groups:
        allowed = ", ".join(owner.scaling_groups) or "none"
        raise Forbidden(
            f"{owner.name!r} may not use the scaling group {group!r}; allowed: {allowed}",
            scalingGroup=group,
            allowed=owner.scaling_groups,
        )


def _check_quota(request: SessionRequest, owner: Row[Any]) -> None:
    asked = Slots.total(kernel.slots for kernel in request.kernels)
    if exceeded := Limits.of(owner).slots.exceeded_by(asked):
        raise InvalidRequest(
            f"the session asks for more {', '.join(exceeded)} than {owner.name!r} is ever allowed",
            field="slots",
            exceeded=exceeded,
        )


def _check_name(conn: Connection, name: str, owner_id: str) -> None:
    taken = exists().where(
        sessions.c.owner_id == owner_id, sessions.c.name == name, sessions.c.ended_at.is_(None)
    )
    if conn.scalar(select(taken)):
        raise Conflict(f"you have an open session named {name!r}", name=name)


def _kernels(
    conn: Connection,
    session_id: str,
    request: SessionRequest,
    references: Sequence[Reference],
    owner_id: str,
    at: float,
) -> list[dict[str, Any]]:
    meanings = {reference: resolved.meaning(conn, reference) for reference in set(references)}
    known = resolved.find(conn, {digest for digest in meanings.values() if digest})
    rows = []
    for position, (kernel, reference) in enumerate(zip(request.kernels, references, strict=True)):
        digest = meanings[reference]
        rows.append(
            {
                "id": new_id(),
                "session_id": session_id,
                "position": position,
                "owner_id": owner_id,
                "reference": str(reference),
                "registry": reference.registry,
                "root_digest": digest,
                "cpu": kernel.slots.cpu,
                "mem": kernel.slots.mem,
                "gpu": kernel.slots.gpu,
                "command": list(kernel.command),
                "environment": dict(kernel.environment),
                "status": KERNEL_TRANSITIONS.initial,
                "status_info": "" if digest in known else Reason.RESOLVING_IMAGE,
                "attempts": 0,
                "tries": 0,
                "agents_failed": 0,
                "calls": 0,
                "changed_at": at,
            }
        )
    return rows
