"""The bus over Valkey or Redis: for several managers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis

from wharfinger.manager.bus.port import Message
from wharfinger.manager.bus.queue import MessageQueue
from wharfinger.manager.bus.redis_reader import Listener, RedisReader
from wharfinger.manager.bus.redis_server import RedisAway, RedisServer
from wharfinger.manager.bus.redis_streams import (
    CHANNELS,
    PUBLISH,
    START,
    Position,
    decode_all,
    encode,
    key_of,
    position_of,
)

_LIMIT: Final = 256
_RETAINED_SECONDS: Final = 120.0
_RETAINED_CHANNELS: Final = 1024
_LAST_READ_SECONDS: Final = 0.3


class RedisBus:
    """The bus port on streams of the server.

    `limit` bounds a channel's retained messages and a subscriber's waiting ones. A channel is
    forgotten `retained_seconds` after the last message on it, and when more than
    `retained_channels` were published on since.

    While the server is away, who listens in this process still hears what is published in it;
    others do not, and find out when they next look. Nothing of that is raised.
    """

    def __init__(
        self,
        server: RedisServer,
        *,
        limit: int = _LIMIT,
        retained_seconds: float = _RETAINED_SECONDS,
        retained_channels: int = _RETAINED_CHANNELS,
    ) -> None:
        self._server = server
        self._limit = limit
        self._bounds = (limit, round(retained_seconds * 1000), retained_channels)
        self._reader = RedisReader(server, limit)
        self._closed = False

    def start(self) -> None:
        """Begin to read."""
        self._reader.loop.start()

    async def publish(self, channel: str, message: Message) -> None:
        """See the port. Not longer than the server's patience, whatever befalls it."""
        if self._closed:
            return
        arguments = (PUBLISH, 2, key_of(channel), CHANNELS, encode(message), *self._bounds)
        try:
            await self._server.ask(lambda client: _evaluate(client, *arguments))
        except RedisAway:
            for listener in self._reader.listeners(channel):
                listener.queue.put(message)

    @asynccontextmanager
    async def subscribe(
        self, channel: str, *, after: str | None = None
    ) -> AsyncIterator[MessageQueue]:
        """See the port. While the server is away nothing can be resumed."""
        listener = Listener(self._limit)
        if self._closed:
            listener.queue.end()
        self._reader.add(channel, listener)
        try:
            since, missed = await self._look(channel, after)
            if missed is not None:
                listener.queue.resume(missed)
            await self._reader.begin(channel, listener, since)
            yield listener.queue
        finally:
            listener.queue.end()
            self._reader.remove(channel, listener)

    async def retained(self, channel: str) -> Sequence[Message]:
        """See the port. Nothing while the server is away."""
        try:
            return decode_all(await self._entries(channel))
        except RedisAway:
            return []

    async def close(self) -> None:
        """See the port: subscribers still get what was published before. Within a second."""
        if not self._closed:
            self._closed = True
            await self._reader.stop(within=_LAST_READ_SECONDS)

    async def _look(
        self, channel: str, after: str | None
    ) -> tuple[Position | None, list[Message] | None]:
        """Where the channel ends now, and what followed that message; None is not known."""
        if self._closed:
            return None, None
        try:
            entries = await self._entries(channel, all_of_them=after is not None)
        except RedisAway:
            return None, None
        since = position_of(entries[-1][0]) if entries else START
        messages = decode_all(entries) if after else []
        for place, message in enumerate(messages):
            if message.id == after:
                return since, messages[place + 1 :]
        return since, None

    async def _entries(self, channel: str, *, all_of_them: bool = True) -> list[Any]:
        """The channel's entries, or just the last one."""
        key, count = key_of(channel), None if all_of_them else 1
        newest_first = await self._server.ask(lambda client: client.xrevrange(key, count=count))
        return list(reversed(newest_first or []))


async def _evaluate(client: Redis, script: str, *arguments: Any) -> None:
    await client.eval(script, *arguments)
