"""How a followed log ends, by whoever ends it."""

import asyncio
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any

import pytest
from rig.misbehaving_engine import DEAD
from starlette.types import Message

from wharfinger.agent.log_response import LogResponse

Pieces = AsyncGenerator[bytes, None]


class Caller:
    """One caller of a log; `closed` is set when the log is let go."""

    def __init__(self) -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self.heard = asyncio.Event()
        self.leaves = asyncio.Event()
        self.closing = asyncio.Event()
        self.closed = asyncio.Event()

    async def silence(self) -> Pieces:
        try:
            yield b"hello"
            await asyncio.Event().wait()
        finally:
            self.closed.set()

    async def calls(self, pieces: Pieces) -> None:
        async with asyncio.timeout(5):
            await LogResponse(pieces, self.closing)({}, self._receive, self._send)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def whole(self) -> bool:
        """Whether the response was brought to an end."""
        return self.sent[-1].get("more_body") is False

    async def _receive(self) -> Message:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.heard.set()


@pytest.fixture
def caller() -> Caller:
    return Caller()


async def test_a_log_ends_the_response(caller: Caller) -> None:
    async def pieces() -> Pieces:
        yield b"one "
        yield b"two"

    await caller.calls(pieces())
    assert caller.body == b"one two"
    assert caller.whole
    assert b"content-length" not in dict(caller.sent[0]["headers"])


@pytest.mark.parametrize(("event", "whole"), [("leaves", False), ("closing", True)])
async def test_who_leaves_or_closes_lets_the_log_go(
    caller: Caller, event: str, whole: bool
) -> None:
    call = asyncio.create_task(caller.calls(caller.silence()))
    await caller.heard.wait()
    getattr(caller, event).set()
    await call
    assert caller.closed.is_set()
    assert caller.whole is whole


async def test_a_call_that_is_cancelled_lets_the_log_go(caller: Caller) -> None:
    call = asyncio.create_task(caller.calls(caller.silence()))
    await caller.heard.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert caller.closed.is_set()


async def test_a_log_that_breaks_off_is_no_whole_one(caller: Caller) -> None:
    async def pieces() -> Pieces:
        yield b"one "
        raise DEAD

    await caller.calls(pieces())
    assert caller.body == b"one "
    assert not caller.whole
