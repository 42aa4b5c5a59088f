"""What the manager may call on an agent: `contracts/rpc.py` over HTTP."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from wharfinger.agent.puller import Puller
from wharfinger.agent.remover import Remover
from wharfinger.contracts.rpc import (
    CANCEL,
    CHECK_AND_PULL,
    REMOVE_IMAGES,
    Call,
    CancelCall,
    CancelReply,
    CheckAndPullCall,
    CheckAndPullReply,
    RemoveImagesCall,
    RemoveImagesReply,
)
from wharfinger.contracts.wire import Wire
from wharfinger.domain.errors import (
    InvalidRequest,
    StaleIncarnation,
    Unauthenticated,
    WharfingerError,
)

BODY_LIMIT: Final = 8 * 1024 * 1024
"""Bytes: a thousand orders of a hundred layers each."""
READ_SECONDS: Final = 30.0
"""How long a manager may take to send a call."""
ANSWER_SHARE: Final = 0.9
"""Of a call's deadline: what is left is for the way back."""

C = TypeVar("C", bound=Call)


class TooLarge(InvalidRequest):
    """The body is larger than any call needs."""


class TooSlow(InvalidRequest):
    """The body did not arrive in time."""


_STATUSES: Final[dict[type[WharfingerError], int]] = {
    Unauthenticated: 401,
    StaleIncarnation: 409,
    TooLarge: 413,
    TooSlow: 408,
    InvalidRequest: 400,
}


def rpc_app(*, incarnation: str, call_token: str, puller: Puller, remover: Remover) -> Starlette:
    """The calls of one incarnation, for whoever shows its call token."""

    async def check_and_pull(call: CheckAndPullCall) -> Wire:
        deadline = call.deadline_seconds * ANSWER_SHARE
        answers = await puller.check_and_pull(call.orders, deadline)
        return CheckAndPullReply(answers=tuple(answers))

    async def remove_images(call: RemoveImagesCall) -> Wire:
        deadline = call.deadline_seconds * ANSWER_SHARE
        answers = await remover.remove_images(call.orders, deadline)
        return RemoveImagesReply(answers=tuple(answers))

    async def cancel(call: CancelCall) -> Wire:
        deadline = call.deadline_seconds * ANSWER_SHARE
        answers = await puller.cancel(call.attempt_ids, deadline)
        return CancelReply(answers=tuple(answers))

    def method(path: str, model: type[C], serve: Callable[[C], Awaitable[Wire]]) -> Route:
        async def endpoint(request: Request) -> Response:
            _authenticate(request, call_token)
            call = await _read(request, model)
            if call.incarnation != incarnation:
                raise StaleIncarnation(
                    f"this is incarnation {incarnation}, the call is for {call.incarnation}"
                )
            return JSONResponse((await serve(call)).to_wire())

        return Route(path, endpoint, methods=["POST"])

    return Starlette(
        routes=[
            method(CHECK_AND_PULL, CheckAndPullCall, check_and_pull),
            method(REMOVE_IMAGES, RemoveImagesCall, remove_images),
            method(CANCEL, CancelCall, cancel),
            Route("/healthz", _health),
        ],
        exception_handlers={WharfingerError: _refuse},
    )


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, WharfingerError)
    status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
    return JSONResponse({"error": error.to_json()}, status)


def _authenticate(request: Request, call_token: str) -> None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    matches = hmac.compare_digest(token.strip().encode(), call_token.encode())
    if scheme.lower() != "bearer" or not matches:
        raise Unauthenticated


async def _read(request: Request, model: type[C]) -> C:
    body = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_LIMIT:
                    raise TooLarge(limit=BODY_LIMIT)
    except TimeoutError:
        raise TooSlow(seconds=READ_SECONDS) from None
    except ClientDisconnect:
        raise InvalidRequest("the caller left before the end of its call") from None
    try:
        return model.model_validate_json(bytes(body))
    except ValidationError as error:
        # never the input itself: it may hold a password
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise InvalidRequest(
            f"not a {model.__name__}",
            problems=[{"at": list(each["loc"]), "problem": each["msg"]} for each in problems],
        ) from None
