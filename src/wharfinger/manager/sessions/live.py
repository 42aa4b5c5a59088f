"""How far pulls are, as agents report it: kept in memory, for who looks at a session."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from pydantic import ValidationError

from wharfinger.contracts.ingest import AttemptProgress
from wharfinger.manager.bus.follow import follow
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.fleet.service import PROGRESS
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions.views import PullFigures

KEPT_SECONDS: Final = 60.0
"""Without news for this long, figures are forgotten."""
MOST: Final = 10_000
"""Attempts; beyond it those with the oldest news are forgotten."""
_RETRY_SECONDS: Final = 1.0


class LivePulls:
    """The last figures of each attempt that agents told of. Bytes never fall, and stay below the
    total: that the image is there is told by the kernel's state."""

    def __init__(self, bus: Bus, *, steady_clock: Callable[[], float] = time.monotonic) -> None:
        self._bus = bus
        self._steady = steady_clock
        # the attempt with the newest news comes last
        self._figures: dict[str, tuple[float, PullFigures]] = {}
        self.loop = Loop("live pulls", self._follow, _RETRY_SECONDS)

    def start(self) -> None:
        """Begin to follow what agents report."""
        self.loop.start()

    async def stop(self) -> None:
        """Follow no more."""
        await self.loop.stop()

    def figures(self, attempt_ids: Iterable[str]) -> dict[str, PullFigures]:
        """The last figures of these attempts, of those that are known."""
        self._forget()
        return {
            attempt_id: self._figures[attempt_id][1]
            for attempt_id in attempt_ids
            if attempt_id in self._figures
        }

    async def hear(self, message: Message) -> None:
        """Take in one report's progress."""
        for entry in message.data.get("progress", ()):
            try:
                said = AttemptProgress.model_validate(entry)
            except ValidationError:
                continue  # another version's manager; its own watchers see it
            self._note(said)
        self._forget()

    async def _follow(self) -> None:
        await follow(self._bus, PROGRESS, self.hear)

    def _note(self, said: AttemptProgress) -> None:
        known = self._figures.pop(said.attempt_id, None)
        done = min(said.bytes_done, max(said.bytes_total - 1, 0))
        if known is not None:
            done = max(done, known[1].bytes_done)
        figures = PullFigures(
            said.phase, done, said.bytes_total, said.bytes_per_second, said.eta_seconds
        )
        self._figures[said.attempt_id] = (self._steady(), figures)

    def _forget(self) -> None:
        horizon = self._steady() - KEPT_SECONDS
        while self._figures:
            oldest = next(iter(self._figures))
            if len(self._figures) <= MOST and self._figures[oldest][0] >= horizon:
                return
            del self._figures[oldest]
