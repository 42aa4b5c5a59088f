"""Doing one thing to many, a few at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.manager.catalogue.abreast import abreast


class Refused(Exception):
    """What a part raises."""


@given(st.integers(0, 12), st.integers(1, 5))
def test_all_are_done_and_never_more_at_once_than_said(count: int, at_once: int) -> None:
    done: list[int] = []
    running = most = 0

    async def do(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(item % 3):
            await asyncio.sleep(0)
        running -= 1
        done.append(item)

    asyncio.run(abreast(range(count), do, at_once))

    assert sorted(done) == list(range(count))
    assert most <= at_once


async def test_items_are_not_taken_ahead_of_their_turn() -> None:
    taken: list[int] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def items() -> AsyncIterator[int]:
        for number in range(10):
            taken.append(number)
            yield number

    async def do(item: int) -> None:
        if item == 1:
            begun.set()
        await go_on.wait()

    work = asyncio.create_task(abreast(items(), do, 2))
    await begun.wait()
    assert taken == [0, 1]
    go_on.set()
    await work


async def test_the_first_error_ends_the_others_and_is_raised_as_it_is() -> None:
    ended: list[int] = []

    async def do(item: int) -> None:
        if item == 2:
            raise Refused(item)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(Refused):
        await abreast(range(5), do, 3)
    assert sorted(ended) == [0, 1]


async def test_cancelling_ends_all_of_them() -> None:
    ended: list[int] = []
    begun = asyncio.Event()

    async def do(item: int) -> None:
        try:
            if item == 1:
                begun.set()
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    work = asyncio.create_task(abreast(range(5), do, 2))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert sorted(ended) == [0, 1]
