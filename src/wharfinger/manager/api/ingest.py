"""What agents send: registration and reports."""

from typing import Final, TypeVar

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse

from wharfinger.contracts.ingest import REGISTER, REPORT, Registration, Report
from wharfinger.contracts.wire import Wire
from wharfinger.manager.api.bodies import read_body
from wharfinger.manager.api.dependencies import Bearer, TheServices
from wharfinger.manager.api.errors import Malformed, validation_problems

router = APIRouter()

LARGEST_BODY: Final = 8 * 1024 * 1024
"""Bytes. A full listing of ten thousand images is about a quarter of it."""

M = TypeVar("M", bound=Wire)


@router.post(REGISTER)
async def register(request: Request, services: TheServices, bearer: Bearer) -> JSONResponse:
    """`Registration` in, `Registered` out."""
    registration = await _read(request, Registration)
    registered = await services.fleet.register(registration, bearer)
    return JSONResponse(registered.to_wire())


@router.post(REPORT)
async def report(request: Request, services: TheServices, bearer: Bearer) -> JSONResponse:
    """`Report` in, `Acknowledgement` out."""
    said = await _read(request, Report)
    acknowledgement = await services.fleet.report(said, bearer)
    return JSONResponse(acknowledgement.to_wire())


async def _read(request: Request, model: type[M]) -> M:
    body = await read_body(request, LARGEST_BODY)
    # raw texts of engines may hold NULs, which PostgreSQL keeps in no text; a report that can never
    # be kept would be sent again for ever
    body = body.replace(b"\\u0000", b"\\ufffd")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise Malformed(
            f"This is not a {model.__name__}", **validation_problems(list(problems))
        ) from None
