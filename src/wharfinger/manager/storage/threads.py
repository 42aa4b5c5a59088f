"""Database threads: a synchronous call runs whole on one of them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from wharfinger.manager.storage.errors import StorageClosed

T = TypeVar("T")


class Threads:
    """`count` threads and the queue before them."""

    def __init__(self, name: str, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._closed = False

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` on the next free thread.

        When the awaiter is cancelled, a call that has not begun never does; one that has begun
        runs to its end on its thread. Raises `StorageClosed` after `close`.
        """
        if self._closed:
            raise StorageClosed
        return await asyncio.wrap_future(self._executor.submit(call))

    def refuse(self) -> None:
        """Take no more calls."""
        self._closed = True

    def join(self) -> None:
        """Wait for every call that was taken. Blocks."""
        self._executor.shutdown()
