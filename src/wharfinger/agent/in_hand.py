"""Work that outlives the call that asked for it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Generic, TypeVar

KEPT_SECONDS: Final = 60.0
KEPT_MOST: Final = 32

T = TypeVar("T")


class InHand(Generic[T]):
    """Work by key, each a task of its own: whoever asks for a key under way joins it, and may leave
    while it goes on.

    A result that comes after all have left is kept for the next who asks: the last `KEPT_MOST` of
    them, for `KEPT_SECONDS`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._working: dict[str, asyncio.Task[T]] = {}
        self._left: dict[str, tuple[float, asyncio.Task[T]]] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """What is under way, in the order it began."""
        return tuple(self._working)

    async def ask(
        self, work: Mapping[str, Callable[[], Coroutine[Any, Any, T]]], seconds: float
    ) -> dict[str, T]:
        """Begin or join each: the results that are there within so many seconds."""
        self._forget()
        tasks = {key: self._task(key, begin) for key, begin in work.items()}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
        done = {key: task for key, task in tasks.items() if task.done()}
        for key, task in done.items():
            self._taken(key, task)
        return {key: task.result() for key, task in done.items()}

    async def finished(self, key: str) -> None:
        """Return when what is under way for this key is over."""
        if task := self._working.get(key):
            await asyncio.wait({task})

    def drop(self, key: str) -> None:
        """A result that is kept for this key is no longer true."""
        self._left.pop(key, None)

    async def close(self) -> None:
        """Stop everything, wherever it is."""
        working = list(self._working.values())
        for task in working:
            task.cancel()
        if working:
            await asyncio.wait(working)

    def _task(self, key: str, begin: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        if key in self._left:
            return self._left[key][1]
        if key not in self._working:
            task = asyncio.create_task(begin(), name=f"in hand: {key}")
            self._working[key] = task
            task.add_done_callback(lambda task: self._over(key, task))
        return self._working[key]

    def _over(self, key: str, task: asyncio.Task[T]) -> None:
        if self._working.get(key) is not task:
            return  # taken in the moment it was done
        del self._working[key]
        if not task.cancelled():
            self._left[key] = self._clock(), task

    def _taken(self, key: str, task: asyncio.Task[T]) -> None:
        self._left.pop(key, None)
        if self._working.get(key) is task:
            del self._working[key]

    def _forget(self) -> None:
        since = self._clock() - KEPT_SECONDS
        surplus = len(self._left) - KEPT_MOST
        for place, (key, (left, _)) in enumerate(list(self._left.items())):
            if left < since or place < surplus:
                del self._left[key]
