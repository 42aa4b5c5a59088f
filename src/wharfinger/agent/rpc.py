"""What the manager may call on an agent: `contracts/rpc.py` over HTTP."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from wharfinger.agent.kernels import Kernels
from wharfinger.agent.log_response import LogResponse
from wharfinger.agent.pull_survey import PullSurveyor
from wharfinger.agent.puller import Puller
from wharfinger.agent.removal_survey import RemovalSurveyor
from wharfinger.agent.remover import Remover
from wharfinger.contracts.rpc import (
    CANCEL,
    CHECK_AND_PULL,
    CREATE_KERNELS,
    END_KERNELS,
    KERNEL_LOG,
    REMOVE_IMAGES,
    REMOVE_KERNELS,
    SURVEY_PULLS,
    SURVEY_REMOVALS,
    Call,
    CancelCall,
    CancelReply,
    CheckAndPullCall,
    CheckAndPullReply,
    CreateKernelsCall,
    CreateKernelsReply,
    EndKernelsCall,
    EndKernelsReply,
    KernelLogCall,
    RemoveImagesCall,
    RemoveImagesReply,
    RemoveKernelsCall,
    RemoveKernelsReply,
    SurveyPullsCall,
    SurveyRemovalsCall,
    SurveyRemovalsReply,
)
from wharfinger.contracts.wire import Wire
from wharfinger.domain.errors import (
    InvalidRequest,
    StaleIncarnation,
    Unauthenticated,
    UnknownId,
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
    UnknownId: 404,
}


@dataclass(frozen=True, slots=True)
class Surveyors:
    """Who looks into what would happen."""

    removals: RemovalSurveyor
    pulls: PullSurveyor


def rpc_app(
    *,
    incarnation: str,
    call_token: str,
    puller: Puller,
    remover: Remover,
    surveyors: Surveyors,
    kernels: Kernels,
    closing: asyncio.Event,
) -> Starlette:
    """The calls of one incarnation, for whoever shows its call token. Logs that are followed end
    when `closing` is set."""
    door = _Door(incarnation, call_token)
    return Starlette(
        routes=[
            *_image_calls(door, puller, remover),
            *_survey_calls(door, surveyors),
            *_kernel_calls(door, kernels, closing),
            Route("/healthz", _health),
        ],
        exception_handlers={WharfingerError: _refuse},
    )


class _Door:
    """Lets in who shows the call token and means this incarnation."""

    def __init__(self, incarnation: str, call_token: str) -> None:
        self._incarnation = incarnation
        self._call_token = call_token

    def to(self, path: str, model: type[C], serve: Callable[[C], Awaitable[Response]]) -> Route:
        """The route of one method."""

        async def endpoint(request: Request) -> Response:
            _authenticate(request, self._call_token)
            call = await _read(request, model)
            if call.incarnation != self._incarnation:
                raise StaleIncarnation(
                    f"this is incarnation {self._incarnation}, the call is for {call.incarnation}"
                )
            return await serve(call)

        return Route(path, endpoint, methods=["POST"])


def _image_calls(door: _Door, puller: Puller, remover: Remover) -> list[Route]:
    async def check_and_pull(call: CheckAndPullCall) -> Response:
        answers = await puller.check_and_pull(call.orders, _seconds(call))
        return _answer(CheckAndPullReply(answers=tuple(answers)))

    async def remove_images(call: RemoveImagesCall) -> Response:
        answers = await remover.remove_images(call.orders, _seconds(call))
        return _answer(RemoveImagesReply(answers=tuple(answers)))

    async def cancel(call: CancelCall) -> Response:
        answers = await puller.cancel(call.attempt_ids, _seconds(call))
        return _answer(CancelReply(answers=tuple(answers)))

    return [
        door.to(CHECK_AND_PULL, CheckAndPullCall, check_and_pull),
        door.to(REMOVE_IMAGES, RemoveImagesCall, remove_images),
        door.to(CANCEL, CancelCall, cancel),
    ]


def _survey_calls(door: _Door, surveyors: Surveyors) -> list[Route]:
    async def removals(call: SurveyRemovalsCall) -> Response:
        surveys = await surveyors.removals.survey(
            call.orders, _seconds(call), want_bytes=call.want_bytes
        )
        return _answer(SurveyRemovalsReply(surveys=tuple(surveys)))

    async def pulls(call: SurveyPullsCall) -> Response:
        return _answer(await surveyors.pulls.survey(call.orders, _seconds(call)))

    return [
        door.to(SURVEY_REMOVALS, SurveyRemovalsCall, removals),
        door.to(SURVEY_PULLS, SurveyPullsCall, pulls),
    ]


def _kernel_calls(door: _Door, kernels: Kernels, closing: asyncio.Event) -> list[Route]:
    async def create(call: CreateKernelsCall) -> Response:
        answers = await kernels.create(call.orders, _seconds(call))
        return _answer(CreateKernelsReply(answers=tuple(answers)))

    async def end(call: EndKernelsCall) -> Response:
        answers = await kernels.end(call.orders, _seconds(call))
        return _answer(EndKernelsReply(answers=tuple(answers)))

    async def remove(call: RemoveKernelsCall) -> Response:
        answers = await kernels.remove(call.kernel_ids, _seconds(call))
        return _answer(RemoveKernelsReply(answers=tuple(answers)))

    async def log(call: KernelLogCall) -> Response:
        pieces = await kernels.log(call.kernel_id, tail_bytes=call.tail_bytes, follow=call.follow)
        return LogResponse(pieces, closing)

    return [
        door.to(CREATE_KERNELS, CreateKernelsCall, create),
        door.to(END_KERNELS, EndKernelsCall, end),
        door.to(REMOVE_KERNELS, RemoveKernelsCall, remove),
        door.to(KERNEL_LOG, KernelLogCall, log),
    ]


def _seconds(call: Call) -> float:
    return call.deadline_seconds * ANSWER_SHARE


def _answer(reply: Wire) -> Response:
    return JSONResponse(reply.to_wire())


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
