"""Responses that go on: for as long as there is something to send and somebody to read it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from prometheus_client import Gauge
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wharfinger.domain.errors import WharfingerError
from wharfinger.manager.api.services import StreamEvent

log = structlog.get_logger()

KEEP_ALIVE_SECONDS: Final = 15.0
"""A silent stream of events says that it lives this often; proxies cut at 30 s and more."""
SEND_SECONDS: Final = 30.0
"""How long a client may let its full buffers stand. Then it is taken for dead: a send waits for the
client to read once the socket's buffers and 64 KiB of the server's are full."""
_FAREWELL_SECONDS: Final = 0.5

Events = AsyncIterator[StreamEvent]


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent, piece by piece, and the headers that go before it."""

    pieces: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


class LiveResponse(Response):
    """Sends pieces until the last one, or until the client is gone or too slow, or the server is
    about to stop; then leaves what was opened, whatever happened.

    A body that breaks off by an error is ended properly only when it is `resumable`: its client
    then comes back; of any other the client sees that it is not whole.
    """

    keep_alive_piece: bytes = b""
    resumable = False

    def __init__(
        self,
        opened: AbstractAsyncContextManager[Body],
        *,
        drain: asyncio.Event,
        open_streams: Gauge,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        patience: float = SEND_SECONDS,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._opened = opened
        self._drain = drain
        self._open_streams = open_streams
        self._keep_alive = keep_alive if self.keep_alive_piece else None
        self._patience = patience

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Open it, which may still refuse, and only then begin the response."""
        async with self._opened as body:
            with self._open_streams.track_inprogress():
                self.headers.update(body.headers)
                await self._respond(body.pieces, receive, send)

    async def _respond(self, pieces: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_all(pieces, send), name="stream: send")
        gone = asyncio.create_task(_disconnected(receive), name="stream: disconnect")
        draining = asyncio.create_task(_wait(self._drain), name="stream: drain")
        tasks = {sending, gone, draining}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(*tasks)
        proper = gone not in done and (sending.result() if sending in done else self.resumable)
        if proper:
            # a stream that ends properly is resumed at once; one that breaks looks like a failure
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, pieces: AsyncIterator[bytes], send: Send) -> bool:
        """Send until the last piece. False when the client took too long to read, or what was sent
        is not all of it."""
        upcoming = asyncio.create_task(_next(pieces), name="stream: next piece")
        try:
            while True:
                await asyncio.wait({upcoming}, timeout=self._keep_alive)
                if not upcoming.done():
                    await self._send(send, self.keep_alive_piece)
                    continue
                piece = upcoming.result()
                if piece is None:
                    return True
                await self._send(send, piece)
                upcoming = asyncio.create_task(_next(pieces), name="stream: next piece")
        except TimeoutError:
            log.info("stream dropped: its client does not read", seconds=self._patience)
            return False
        except WharfingerError as error:
            log.warning("stream ended early", error=error.to_json())
            return self.resumable
        finally:
            await _cancel(upcoming)

    async def _send(self, send: Send, piece: bytes) -> None:
        async with asyncio.timeout(self._patience):
            await send({"type": "http.response.body", "body": piece, "more_body": True})


class EventStream(LiveResponse):
    """Server-Sent Events, until the last one."""

    media_type = EventSourceResponse.media_type
    keep_alive_piece = KEEPALIVE_COMMENT
    resumable = True

    def __init__(self, watched: AbstractAsyncContextManager[Events], **settings: Any) -> None:
        super().__init__(_encoded(watched), **settings)


@asynccontextmanager
async def _encoded(watched: AbstractAsyncContextManager[Events]) -> AsyncIterator[Body]:
    async with watched as events, aclosing(_pieces(events)) as pieces:
        yield Body(pieces)


async def _pieces(events: Events) -> AsyncGenerator[bytes, None]:
    async for event in events:
        data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
        yield format_sse_event(data_str=data, event=event.kind, id=event.id)
        if event.last:
            return


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


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
