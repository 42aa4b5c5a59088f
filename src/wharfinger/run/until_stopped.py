"""Running a program until it is told to stop."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress


async def until_stopped(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main` with an event that SIGINT and SIGTERM set; a second signal cancels it."""
    stop = asyncio.Event()
    running = asyncio.ensure_future(main(stop))

    def told() -> None:
        if stop.is_set():
            running.cancel()
        stop.set()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, told)
    try:
        with suppress(asyncio.CancelledError):
            await running
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)
