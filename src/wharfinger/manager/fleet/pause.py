"""Patience with agents that do not answer: each time a little longer before the next call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from wharfinger.manager.fleet.calls import AgentUnreachable

log = structlog.get_logger()

_LONGEST = 8.0


class Pause:
    """Counts an agent's failed calls in a row."""

    def __init__(self) -> None:
        self._failed: dict[str, int] = {}

    @asynccontextmanager
    async def after_trouble(self, agent_id: str) -> AsyncIterator[None]:
        """Run a call; when the agent does not answer, wait 1, 2, 4, 8 s before ending."""
        try:
            yield
        except AgentUnreachable as error:
            failed = self._failed[agent_id] = self._failed.get(agent_id, 0) + 1
            log.info("call not answered", agent=agent_id, error=error.message, failed=failed)
            await asyncio.sleep(min(2.0 ** (failed - 1), _LONGEST))
        else:
            self._failed.pop(agent_id, None)
