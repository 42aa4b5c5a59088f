"""Calls that run beside a task's rounds: at most one per key at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import ParamSpec

import structlog

from wharfinger.domain.errors import WharfingerError

log = structlog.get_logger()

P = ParamSpec("P")


class Errands:
    """Starts errands within a task group; a key whose errand still runs is left alone.

    One that meets a `WharfingerError` ends with a log line: the next round starts it anew.
    """

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(
        self,
        key: str,
        errand: Callable[P, Coroutine[None, None, None]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Run it unless this key's last one has not ended."""
        if key not in self._running:
            task = self._group.create_task(_guarded(key, errand(*args, **kwargs)))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))

    def cancel(self) -> None:
        """Stop all that run."""
        for task in self._running.values():
            task.cancel()


async def _guarded(key: str, errand: Coroutine[None, None, None]) -> None:
    try:
        await errand
    except WharfingerError as error:
        log.warning("errand failed once", errand=key, error=error.to_json())
