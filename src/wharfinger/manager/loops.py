"""A loop as a small service: it runs once per ring, and at least once per period."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from wharfinger.domain.errors import WharfingerError

log = structlog.get_logger()


class Loop:
    """Calls `run_once` when rung and every `period` seconds.

    A `WharfingerError` from it is logged and the loop goes on; anything else is a defect: it is
    logged with its traceback, and the loop goes on as well, since the others depend on it.
    Stopping before the start and stopping twice are fine.
    """

    def __init__(self, name: str, run_once: Callable[[], Awaitable[object]], period: float) -> None:
        self.name = name
        self._run_once = run_once
        self._period = period
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started, and has not died."""
        return self._task is not None and not self._task.done()

    def ring(self) -> None:
        """Run soon. Rings while it runs make it run once more."""
        self._bell.set()

    def start(self) -> None:
        """Begin; a second start while it runs changes nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"loop {self.name}")

    async def stop(self) -> None:
        """Cancel what runs and wait for it."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            self._bell.clear()
            try:
                await self._run_once()
            except WharfingerError as error:
                log.warning("loop failed once", loop=self.name, error=error.to_json())
            except Exception:
                log.exception("loop met a defect", loop=self.name)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await self._bell.wait()
