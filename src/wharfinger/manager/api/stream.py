"""The events of a background task and of a session, as Server-Sent Events."""

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from starlette.requests import Request

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.api.dependencies import CallerOwns, TheServices
from wharfinger.manager.api.live import EventStream

router = APIRouter()

LastEventId = Annotated[str | None, Header(max_length=200)]


@router.get("/background-tasks")
async def task_events(
    request: Request,
    services: TheServices,
    ownership: CallerOwns,
    task_id: Annotated[str, Query(max_length=200)],
    last_event_id: LastEventId = None,
) -> EventStream:
    """The present state, then what is new, until the task's one end.

    With `Last-Event-ID` only what came after that, where it is still known.
    """
    require_printable(task_id, "A task's id")
    task = await services.tasks.show(task_id)
    ownership.require(task.owner_id, f"Task {task_id}")
    return EventStream(
        services.tasks.watch(task_id, last_event_id=last_event_id),
        drain=services.drain,
        open_streams=request.app.state.metrics.open_streams,
    )


@router.get("/sessions/{session_id}/events")
async def session_events(
    request: Request,
    services: TheServices,
    ownership: CallerOwns,
    session_id: Annotated[str, Path(max_length=200)],
    last_event_id: LastEventId = None,
) -> EventStream:
    """The present state, then each transition and the pulls, until the session's end.

    With `Last-Event-ID` the transitions since then are told after the present state.
    """
    require_printable(session_id, "A session's id")
    session = await services.sessions.show(session_id)
    ownership.require(session.owner_id, f"Session {session_id}")
    return EventStream(
        services.sessions.watch(session_id, last_event_id=last_event_id),
        drain=services.drain,
        open_streams=request.app.state.metrics.open_streams,
    )


def require_printable(text: str, thing: str) -> None:
    """Raise `InvalidRequest` for characters that no database keeps."""
    if not text.isprintable():
        raise InvalidRequest(f"{thing} has no such characters")
