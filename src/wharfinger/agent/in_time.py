"""Questions to the engine that must be answered by a certain moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wharfinger.agent.engine.port import EngineError
from wharfinger.domain.failures import Failure, FailureClass


@asynccontextmanager
async def in_time(until: float) -> AsyncIterator[None]:
    """Raises `EngineError` when the context is not left by `until` (the loop's clock)."""
    try:
        async with asyncio.timeout_at(until):
            yield
    except TimeoutError:
        raise EngineError(
            Failure(FailureClass.ENGINE_ERROR, "the engine did not answer in time")
        ) from None


def within(seconds: float) -> float:
    """The moment so many seconds from now, by the loop's clock."""
    return asyncio.get_running_loop().time() + seconds
