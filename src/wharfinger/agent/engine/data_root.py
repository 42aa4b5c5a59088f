"""The folder an engine keeps its images in, and the room on its file system."""

import asyncio
import os
import threading
from contextlib import suppress
from typing import Final

from wharfinger.contracts.wire import DiskSpace

ANSWERS_WITHIN: Final = 2.0
"""Seconds. A file system whose server is gone never answers."""


class DataRoot:
    """The folder at `path` on this machine.

    Each look has a thread of its own, which nobody waits for at the end of the program, and there
    is one at most: what looks while it hangs waits for that one.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._looking: asyncio.Future[DiskSpace | None] | None = None

    async def measure(self) -> DiskSpace | None:
        """The room there is; None when the folder cannot be seen, or does not answer in time."""
        if self._looking is None or self._looking.done():
            self._looking = self._look()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWERS_WITHIN):
                return await asyncio.shield(self._looking)
        return None

    def _look(self) -> "asyncio.Future[DiskSpace | None]":
        loop = asyncio.get_running_loop()
        seen: asyncio.Future[DiskSpace | None] = loop.create_future()

        def look() -> None:
            space = _space(self.path)
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(seen.set_result, space)

        threading.Thread(target=look, name=f"look at {self.path}", daemon=True).start()
        return seen


def _space(path: str) -> DiskSpace | None:
    try:
        seen = os.statvfs(path)
    except OSError:
        return None
    return DiskSpace(free=seen.f_bavail * seen.f_frsize, total=seen.f_blocks * seen.f_frsize)
