"""A container's output as an HTTP response that goes on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wharfinger.agent.engine.port import EngineError

log = structlog.get_logger()


class LogResponse(Response):
    """Sends each piece as it comes, as fast as the caller reads.

    It ends with the log, or when `closing` is set; it stops when the caller leaves. A log that
    breaks off is left without an end, so that nobody takes it for a whole one.
    """

    def __init__(self, pieces: AsyncGenerator[bytes, None], closing: asyncio.Event) -> None:
        super().__init__(media_type="application/octet-stream")
        del self.headers["content-length"]
        self._pieces = pieces
        self._closing = closing

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it, closing the log whatever happens."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_all(send), name="log: send")
        gone = asyncio.create_task(_left(receive), name="log: disconnect")
        closing = asyncio.create_task(self._closing.wait(), name="log: closing")
        tasks = {sending, gone, closing}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if gone not in done and (sending not in done or sending.result()):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> bool:
        """Whether the log came to its end."""
        try:
            async with aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except EngineError as error:
            log.warning("the log of a kernel broke off", problem=error.message)
            return False
        return True


async def _left(receive: Receive) -> None:
    """Return when the caller is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
