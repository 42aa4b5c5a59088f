"""Every request has an id: the caller's `X-Request-Id`, or a new one. It is in every log line of
the request and in the response."""

import logging
import re
import time
from http import HTTPStatus
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wharfinger.manager.api.errors import masked
from wharfinger.manager.identifiers import new_id

log = structlog.get_logger()

HEADER: Final = "X-Request-Id"
_ACCEPTED: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class RequestIds:
    """Outermost middleware: names the request, logs its end, and guards against defects."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app in the request's logging context."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope))
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        began = time.monotonic()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, named)
            except Exception:
                log.exception("request met a defect", method=scope["method"], path=scope["path"])
                if not status:
                    response = JSONResponse({"error": masked(request_id)}, 500)
                    await response(scope, receive, named)
            log.log(
                _level(status),
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=round(time.monotonic() - began, 4),
            )


def _request_id(headers: Headers) -> str:
    asked = headers.get(HEADER, "")
    return asked if _ACCEPTED.fullmatch(asked) else new_id()


def _level(status: int) -> int:
    """What goes well is for debugging only; that the manager failed is a warning."""
    if status < HTTPStatus.BAD_REQUEST:
        return logging.DEBUG
    return logging.INFO if status < HTTPStatus.INTERNAL_SERVER_ERROR else logging.WARNING
