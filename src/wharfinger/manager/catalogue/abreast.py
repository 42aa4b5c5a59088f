"""Doing one thing to many, a few at once."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def abreast(
    items: AsyncIterable[T] | Iterable[T], do: Callable[[T], Awaitable[None]], at_once: int
) -> None:
    """Do it to each item as they come, to `at_once` of them at a time.

    The first error is raised as it is, when all others have been cancelled and have ended. Items
    are not taken ahead of their turn.
    """
    running: set[asyncio.Task[None]] = set()
    done: set[asyncio.Task[None]] = set()

    async def perform(item: T) -> None:
        await do(item)

    try:
        async for item in items if isinstance(items, AsyncIterable) else _stream(items):
            running.add(asyncio.create_task(perform(item)))
            if len(running) == at_once:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                _raise_first(done)
        while running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            _raise_first(done)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, *done, return_exceptions=True)


async def _stream(items: Iterable[T]) -> AsyncIterator[T]:
    for item in items:
        yield item


def _raise_first(done: set[asyncio.Task[None]]) -> None:
    for each in done:
        each.result()
