"""The engine's disk as last seen, for reports: nothing is reported sooner because of it."""

import asyncio
from typing import Final

from wharfinger.agent.engine.port import Engine, EngineError
from wharfinger.contracts.wire import DiskSpace

EVERY_SECONDS: Final = 5.0


class DiskWatch:
    """Measures it every few seconds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.current: DiskSpace | None = None
        """None where it cannot be seen."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.measure()
            await asyncio.sleep(EVERY_SECONDS)

    async def measure(self) -> None:
        """Look now."""
        try:
            self.current = await self._engine.disk()
        except EngineError:
            self.current = None
