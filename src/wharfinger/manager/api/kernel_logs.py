"""The output of a session's kernels, as it is."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request

from wharfinger.contracts.rpc import LOG_LIMIT
from wharfinger.manager.api.dependencies import CallerOwns, TheServices
from wharfinger.manager.api.live import Body, LiveResponse
from wharfinger.manager.api.services import LogStream
from wharfinger.manager.api.stream import require_printable

router = APIRouter()


class LogResponse(LiveResponse):
    """Raw bytes, in whatever encoding the program writes; UTF-8 is the best guess."""

    media_type = "text/plain"


@router.get("/sessions/{session_id}/logs")
async def log(
    request: Request,
    services: TheServices,
    ownership: CallerOwns,
    session_id: Annotated[str, Path(max_length=200)],
    kernel: Annotated[str | None, Query(max_length=200)] = None,
    follow: bool = False,
    tail: Annotated[int, Query(ge=0, le=LOG_LIMIT)] = LOG_LIMIT,
) -> LogResponse:
    """The last `tail` bytes of a kernel's output (the main one's), and with `follow` what comes
    until it ends."""
    for text, thing in ((session_id, "A session's id"), (kernel or "", "A kernel's id")):
        require_printable(text, thing)
    session = await services.sessions.show(session_id)
    ownership.require(session.owner_id, f"Session {session_id}")
    return LogResponse(
        _body(services.sessions.log(session_id, kernel, follow=follow, tail_bytes=tail)),
        drain=services.drain,
        open_streams=request.app.state.metrics.open_streams,
    )


@asynccontextmanager
async def _body(opened: AbstractAsyncContextManager[LogStream]) -> AsyncIterator[Body]:
    async with opened as pieces:
        yield Body(pieces, {"X-Log-Truncated": "true"} if pieces.truncated else {})
