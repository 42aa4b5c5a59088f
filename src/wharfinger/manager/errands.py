"""Calls that run beside rounds: at most one per key at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from collections.abc import Set as AbstractSet
from typing import ParamSpec

import structlog

from wharfinger.domain.errors import WharfingerError

log = structlog.get_logger()

P = ParamSpec("P")

Spawn = Callable[[Coroutine[None, None, None]], asyncio.Task[None]]
"""Makes a task of an errand, and answers for it: a task group's `create_task`, or
`beside_a_loop`."""


def beside_a_loop(errand: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Spawn an errand of a loop, which goes on whatever happens: a defect is logged."""
    return asyncio.create_task(_logged(errand))


class Errands:
    """Starts errands; a key whose errand still runs is left alone.

    One that meets a `WharfingerError` ends with a log line: the next round starts it anew.
    """

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._running: dict[str, asyncio.Task[None]] = {}

    @property
    def running(self) -> AbstractSet[str]:
        """The keys of those that run."""
        return self._running.keys()

    def start(
        self,
        key: str,
        errand: Callable[P, Coroutine[None, None, None]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Run it unless this key's last one has not ended."""
        if key not in self._running:
            task = self._spawn(_guarded(key, errand(*args, **kwargs)))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))

    def cancel(self) -> None:
        """Stop all that run."""
        for task in self._running.values():
            task.cancel()

    async def stop(self) -> None:
        """Stop all that run, and wait for them."""
        self.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()))


async def _guarded(key: str, errand: Coroutine[None, None, None]) -> None:
    try:
        await errand
    except WharfingerError as error:
        log.warning("errand failed once", errand=key, error=error.to_json())


async def _logged(errand: Coroutine[None, None, None]) -> None:
    try:
        await errand
    except Exception:
        log.exception("errand met a defect")
