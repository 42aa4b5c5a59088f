"""Whether the process is alive, and whether it can do its work."""

import asyncio
from typing import Final

from fastapi import APIRouter
from starlette.responses import JSONResponse

from wharfinger.domain.errors import WharfingerError
from wharfinger.manager.api.dependencies import TheServices
from wharfinger.manager.api.services import Services
from wharfinger.manager.storage.clock import now

router = APIRouter()

DATABASE_SECONDS: Final = 2.0
"""How long the database may take to answer a reader that asks nothing of it."""


@router.get("/healthz")
async def alive() -> JSONResponse:
    """200 while the process answers at all."""
    return JSONResponse({"alive": True})


@router.get("/readyz")
async def ready(services: TheServices) -> JSONResponse:
    """200 when it can do its work, else 503 with what hinders it."""
    problems = [*_stopping(services), *_loops(services), *await _database(services)]
    return JSONResponse({"ready": not problems, "problems": problems}, 503 if problems else 200)


def _stopping(services: Services) -> list[str]:
    return ["it is about to stop"] if services.drain.is_set() else []


def _loops(services: Services) -> list[str]:
    return [f"the loop {loop.name} does not run" for loop in services.loops if not loop.running]


async def _database(services: Services) -> list[str]:
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            await services.storage.read(now)
    except TimeoutError:
        return [f"the database did not answer within {DATABASE_SECONDS:g} s"]
    except WharfingerError as error:
        return [f"the database does not answer: {error.message}"]
    return []
