"""Errors on their way out over HTTP: a status, and `{"error": {class, message, detail}}`."""

from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from wharfinger.domain import errors
from wharfinger.domain.errors import InvalidRequest, WharfingerError
from wharfinger.manager.fleet.calls import AgentUnreachable
from wharfinger.manager.storage.errors import StorageClosed, StorageUnavailable

log = structlog.get_logger()


class TooLarge(InvalidRequest):
    """The body is larger than what is read here."""


class TooSlow(InvalidRequest):
    """The body did not arrive in time."""


class Malformed(InvalidRequest):
    """The body does not have the shape that is asked for."""


class WrongMethod(InvalidRequest):
    """The path does not take this method."""


_STATUS: Final[tuple[tuple[type[WharfingerError], int], ...]] = (
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.UnknownId, 404),
    (WrongMethod, 405),
    (TooSlow, 408),
    (errors.Conflict, 409),
    (TooLarge, 413),
    (Malformed, 422),
    (InvalidRequest, 400),
    (errors.InvalidReference, 400),
    (errors.UnknownSelector, 400),
    (errors.NoAgents, 400),
    (errors.UnknownRegistry, 400),
    (AgentUnreachable, 502),
    (StorageUnavailable, 503),
    (StorageClosed, 503),
)
"""The first that fits decides; whatever fits none is a defect of ours: 500."""

_CLIENT_GONE: Final = 499


def status_of(error: WharfingerError) -> int:
    """The HTTP status."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def masked(request_id: str) -> dict[str, Any]:
    """The `error` object of a defect: what went wrong is for the log, by this request id."""
    return {
        "class": WharfingerError.code,
        "message": "Something went wrong inside Wharfinger; its log has more under this request id",
        "detail": {"requestId": request_id},
    }


def error_response(error: WharfingerError, request_id: str) -> Response:
    """The response to a request that failed so."""
    status = status_of(error)
    if status == 500:  # noqa: PLR2004
        log.error("request met a defect", error=error.to_json(), exc_info=error)
        return JSONResponse({"error": masked(request_id)}, status)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004
    return JSONResponse({"error": error.to_json()}, status, headers)


def install(app: FastAPI) -> None:
    """Translate what routes raise. What is not named here passes on to the top-level guard."""
    app.add_exception_handler(WharfingerError, _known)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _of_the_router)
    app.add_exception_handler(ClientDisconnect, _client_gone)


def validation_problems(problems: list[Any]) -> dict[str, Any]:
    """The detail of a failed validation: where, and what was wrong; not what was sent."""
    return {
        "problems": [
            {"at": ".".join(str(part) for part in problem["loc"]), "problem": problem["msg"]}
            for problem in problems[:20]
        ]
    }


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, WharfingerError)
    return error_response(error, request.state.request_id)


async def _not_valid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    invalid = InvalidRequest(
        "The request's parameters are not as they should be",
        **validation_problems(list(error.errors())),
    )
    return error_response(invalid, request.state.request_id)


async def _of_the_router(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    body = InvalidRequest(str(error.detail)).to_json()
    return JSONResponse({"error": body}, error.status_code, error.headers)


async def _client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=_CLIENT_GONE)
