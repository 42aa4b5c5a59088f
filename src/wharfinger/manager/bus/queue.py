"""A subscriber's waiting messages: bounded, and one per coalescing key."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from wharfinger.manager.bus.port import Message, SubscriberOverflow


class MessageQueue:
    """The subscription of the port, filled by an adapter.

    It keeps one message per coalescing key, in the order of publication, and at most `limit`.
    """

    def __init__(self, limit: int) -> None:
        self.resumed = False
        self._limit = limit
        self._waiting: dict[object, Message] = {}
        self._bell = asyncio.Event()
        self._ended = False
        self._overflowed = False

    def resume(self, missed: Iterable[Message]) -> None:
        """Begin with what was missed: all of it is there."""
        self.resumed = True
        for message in missed:
            self.put(message)

    def put(self, message: Message) -> None:
        """One more, unless it has ended."""
        if self._ended:
            return
        key: object = message.coalesce or object()
        self._waiting.pop(key, None)  # the newest comes last, or it would overtake others
        self._waiting[key] = message
        if len(self._waiting) > self._limit:
            self._waiting.clear()
            self._overflowed = True
            self._ended = True
        self._bell.set()

    def end(self) -> None:
        """Nothing more comes; what waits can still be had."""
        self._ended = True
        self._bell.set()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        while not self._waiting:
            if self._overflowed:
                raise SubscriberOverflow
            if self._ended:
                raise StopAsyncIteration
            self._bell.clear()
            await self._bell.wait()
        return self._waiting.pop(next(iter(self._waiting)))
