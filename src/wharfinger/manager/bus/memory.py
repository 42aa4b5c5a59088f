"""The bus within one process: for the embedded manager, which has nobody else to ring."""

import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from wharfinger.manager.bus.port import Message
from wharfinger.manager.bus.queue import MessageQueue

_LIMIT: Final = 256
_RETAINED_SECONDS: Final = 120.0
_RETAINED_CHANNELS: Final = 1024


class MemoryBus:
    """The bus port in memory, for one event loop.

    `limit` bounds both a channel's retained messages and a subscriber's waiting ones, so that what
    is retained always fits the queue of who asks for it. Messages are retained for
    `retained_seconds`, on the `retained_channels` channels that were published on last.
    """

    def __init__(
        self,
        *,
        limit: int = _LIMIT,
        retained_seconds: float = _RETAINED_SECONDS,
        retained_channels: int = _RETAINED_CHANNELS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._subscribers: dict[str, list[MessageQueue]] = {}
        self._retained = _Retained(limit, retained_seconds, retained_channels, clock)
        self._closed = False

    async def publish(self, channel: str, message: Message) -> None:
        """See the port. After `close` nobody is there to hear it."""
        if self._closed:
            return
        self._retained.add(channel, message)
        for subscription in self._subscribers.get(channel, ()):
            subscription.put(message)

    @asynccontextmanager
    async def subscribe(
        self, channel: str, *, after: str | None = None
    ) -> AsyncIterator[MessageQueue]:
        """See the port."""
        subscription = MessageQueue(self._limit)
        missed = None if after is None else self._retained.after(channel, after)
        if missed is not None:
            subscription.resume(missed)
        if self._closed:
            subscription.end()
        subscribers = self._subscribers.setdefault(channel, [])
        subscribers.append(subscription)
        try:
            yield subscription
        finally:
            subscription.end()
            subscribers.remove(subscription)
            if not subscribers:
                del self._subscribers[channel]

    async def retained(self, channel: str) -> Sequence[Message]:
        """See the port."""
        return self._retained.messages(channel)

    async def close(self) -> None:
        """See the port: subscribers still get what waits for them."""
        self._closed = True
        for subscribers in self._subscribers.values():
            for subscription in subscribers:
                subscription.end()


class _Retained:
    """The last messages of the channels that were published on last."""

    def __init__(
        self, limit: int, seconds: float, channels: int, clock: Callable[[], float]
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._channels = channels
        self._clock = clock
        # the channel published on last comes last
        self._messages: OrderedDict[str, deque[tuple[float, Message]]] = OrderedDict()

    def add(self, channel: str, message: Message) -> None:
        messages = self._messages.setdefault(channel, deque(maxlen=self._limit))
        self._messages.move_to_end(channel)
        messages.append((self._clock(), message))
        self._forget_channels()

    def after(self, channel: str, message_id: str) -> list[Message] | None:
        """What followed that message; None when it is not retained (any more)."""
        messages = self.messages(channel)
        for place, message in enumerate(messages):
            if message.id and message.id == message_id:
                return messages[place + 1 :]
        return None

    def messages(self, channel: str) -> list[Message]:
        """Those that are not too old."""
        horizon = self._horizon()
        return [message for at, message in self._messages.get(channel, ()) if at >= horizon]

    def _horizon(self) -> float:
        return self._clock() - self._seconds

    def _forget_channels(self) -> None:
        """Forget those that are too many, and those whose last message is too old."""
        horizon = self._horizon()
        while self._messages:
            channel, messages = next(iter(self._messages.items()))
            last_at, _ = messages[-1]
            if len(self._messages) <= self._channels and last_at >= horizon:
                return
            del self._messages[channel]
