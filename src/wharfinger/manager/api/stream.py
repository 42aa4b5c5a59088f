"""The events of a background task, as Server-Sent Events."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Header, Query
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from prometheus_client import Gauge
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from wharfinger.domain.errors import InvalidRequest, WharfingerError
from wharfinger.manager.api.dependencies import CallerOwns, TheServices
from wharfinger.manager.background.port import TaskEvent

log = structlog.get_logger()
router = APIRouter()

KEEP_ALIVE_SECONDS: Final = 15.0
"""A silent stream says that it lives this often; proxies cut at 30 s and more."""
SEND_SECONDS: Final = 30.0
"""How long a client may let its full buffers stand. Then it is taken for dead: a send waits for the
client to read once the socket's buffers and 64 KiB of the server's are full."""
_FAREWELL_SECONDS: Final = 0.5

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Events = AsyncIterator[TaskEvent]


@router.get("/background-tasks")
async def watch(
    request: Request,
    services: TheServices,
    ownership: CallerOwns,
    task_id: Annotated[str, Query(max_length=200)],
    last_event_id: Annotated[str | None, Header(max_length=200)] = None,
) -> EventSourceResponse:
    """The present state, then what is new, until the task's one end.

    With `Last-Event-ID` only what came after that, where it is still known.
    """
    if not task_id.isprintable():
        raise InvalidRequest("A task's id has no such characters")
    task = await services.tasks.show(task_id)
    ownership.require(task.owner_id, f"Task {task_id}")
    return TaskStream(
        services.tasks.watch(task_id, last_event_id=last_event_id),
        drain=services.drain,
        open_streams=request.app.state.metrics.open_streams,
    )


class TaskStream(EventSourceResponse):
    """Sends events until the last one, or until the client is gone or too slow, or the server is
    about to stop; then leaves the watch, whatever happened."""

    def __init__(
        self,
        watched: AbstractAsyncContextManager[Events],
        *,
        drain: asyncio.Event,
        open_streams: Gauge,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        patience: float = SEND_SECONDS,
    ) -> None:
        super().__init__((), headers=_HEADERS)
        self._watched = watched
        self._drain = drain
        self._open_streams = open_streams
        self._keep_alive = keep_alive
        self._patience = patience

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Enter the watch, which may still refuse, and only then begin the response."""
        async with self._watched as events:
            with self._open_streams.track_inprogress():
                await self._respond(events, receive, send)

    async def _respond(self, events: Events, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_all(events, send), name="stream: send")
        gone = asyncio.create_task(_disconnected(receive), name="stream: disconnect")
        draining = asyncio.create_task(_wait(self._drain), name="stream: drain")
        tasks = {sending, gone, draining}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(*tasks)
        reads = gone not in done and (sending not in done or sending.result())
        if reads:
            # a stream that ends properly is resumed at once; one that breaks looks like a failure
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, events: Events, send: Send) -> bool:
        """Send until the last event. False when the client took too long to read."""
        upcoming = asyncio.create_task(_next(events), name="stream: next event")
        try:
            while True:
                await asyncio.wait({upcoming}, timeout=self._keep_alive)
                if not upcoming.done():
                    await self._send(send, KEEPALIVE_COMMENT)
                    continue
                event = upcoming.result()
                if event is None:
                    return True
                await self._send(send, _encoded(event))
                if event.last:
                    return True
                upcoming = asyncio.create_task(_next(events), name="stream: next event")
        except TimeoutError:
            log.info("stream dropped: its client does not read", seconds=self._patience)
            return False
        except WharfingerError as error:
            log.warning("stream ended early", error=error.to_json())
            return True
        finally:
            await _cancel(upcoming)

    async def _send(self, send: Send, chunk: bytes) -> None:
        async with asyncio.timeout(self._patience):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


def _encoded(event: TaskEvent) -> bytes:
    data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
    return format_sse_event(data_str=data, event=event.kind, id=event.id)


async def _next(events: Events) -> TaskEvent | None:
    return await anext(events, None)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel what still runs, and wait until it has ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
