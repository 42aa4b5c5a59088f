"""Sessions read from their rows, as the interfaces show them."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, exists, select, tuple_

from wharfinger.domain.errors import InvalidRequest, UnknownId
from wharfinger.domain.sessions import OPEN, TERMINAL
from wharfinger.domain.states import KERNEL_TRANSITIONS, KernelStatus
from wharfinger.manager.access.users import user_names
from wharfinger.manager.sessions import kernels as rows
from wharfinger.manager.sessions.views import KernelView, SessionView
from wharfinger.manager.storage.tables import kernels, sessions
from wharfinger.manager.storage.transitions import histories


def one(conn: Connection, session_id: str) -> SessionView:
    """One session; raises `UnknownId`."""
    row = conn.execute(select(sessions).where(sessions.c.id == session_id)).one_or_none()
    if row is None:
        raise UnknownId(f"there is no session {session_id!r}", id=session_id)
    return _views(conn, [row])[0]


def of_kernel(conn: Connection, kernel_id: str) -> SessionView:
    """The session of a kernel; raises `UnknownId`."""
    session_id = conn.scalar(select(kernels.c.session_id).where(kernels.c.id == kernel_id))
    if session_id is None:
        raise UnknownId(f"there is no kernel {kernel_id!r}", id=kernel_id)
    return one(conn, session_id)


def page(
    conn: Connection,
    *,
    owner_id: str | None,
    statuses: Collection[KernelStatus],
    after: str | None,
    limit: int,
) -> list[SessionView]:
    """Up to `limit` sessions, newest first.

    `owner_id` None means everybody's, no `statuses` any. `after` is the id of the session the page
    follows; raises `InvalidRequest` when that is gone.
    """
    place = None if after is None else _place(conn, after)
    found: list[SessionView] = []
    while len(found) < limit:
        batch = _batch(conn, owner_id, statuses, place, limit)
        views = _views(conn, batch)
        found += [view for view in views if not statuses or view.status in statuses]
        if len(batch) < limit:
            break
        place = (batch[-1].created_at, batch[-1].id)
    return found[:limit]


def _place(conn: Connection, session_id: str) -> tuple[float, str]:
    place = conn.execute(
        select(sessions.c.created_at, sessions.c.id).where(sessions.c.id == session_id)
    ).one_or_none()
    if place is None:
        raise InvalidRequest(f"the session {session_id!r} that the page is to follow is gone")
    return place.created_at, place.id


def _batch(
    conn: Connection,
    owner_id: str | None,
    statuses: Collection[KernelStatus],
    place: tuple[float, str] | None,
    limit: int,
) -> Sequence[Row[Any]]:
    """Sessions that may have one of the statuses: it is always that of one of their kernels."""
    query = (
        select(sessions).order_by(sessions.c.created_at.desc(), sessions.c.id.desc()).limit(limit)
    )
    if owner_id is not None:
        query = query.where(sessions.c.owner_id == owner_id)
    if place is not None:
        query = query.where(tuple_(sessions.c.created_at, sessions.c.id) < place)
    if statuses:
        query = query.where(
            exists().where(kernels.c.session_id == sessions.c.id, kernels.c.status.in_(statuses))
        )
        if not set(statuses) & set(OPEN):
            query = query.where(sessions.c.ended_at.is_not(None))
        elif not set(statuses) & TERMINAL:
            query = query.where(sessions.c.ended_at.is_(None))
    return conn.execute(query).all()


def _views(conn: Connection, found: Sequence[Row[Any]]) -> list[SessionView]:
    if not found:
        return []
    theirs = rows.where(conn, kernels.c.session_id.in_([row.id for row in found]))
    logs = histories(conn, KERNEL_TRANSITIONS.name, [kernel.id for kernel in theirs])
    names = user_names(conn, {row.owner_id for row in found})
    grouped = rows.sessions_of(theirs)
    return [
        SessionView(
            id=row.id,
            name=row.name,
            owner_id=row.owner_id,
            owner=names.get(row.owner_id, row.owner_id),
            scaling_group=row.scaling_group,
            created_at=row.created_at,
            ended_at=row.ended_at,
            kernels=[
                KernelView(kernel, logs.get(kernel.id, ())) for kernel in grouped.get(row.id, ())
            ],
        )
        for row in found
    ]
