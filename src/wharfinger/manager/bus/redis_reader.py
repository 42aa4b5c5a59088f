"""Reading every channel somebody here listens to, over one connection that blocks."""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from redis.asyncio import Redis

from wharfinger.manager.bus.port import Message
from wharfinger.manager.bus.queue import MessageQueue
from wharfinger.manager.bus.redis_server import AWAY, RedisAway, RedisServer
from wharfinger.manager.bus.redis_streams import (
    START,
    Position,
    decode,
    key_of,
    position_of,
    spelled,
)
from wharfinger.manager.loops import Loop

_BLOCK_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 2.0
_SHORTEST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


class Listener:
    """One subscriber. It hears what follows `since`; nothing before that is known."""

    def __init__(self, limit: int) -> None:
        self.queue = MessageQueue(limit)
        self.since: Position | None = None

    def hear(self, position: Position, message: Message) -> None:
        """Take what was read, once."""
        if self.since is not None and position > self.since:
            self.since = position
            self.queue.put(message)


@dataclass(slots=True)
class _Channel:
    listeners: list[Listener] = field(default_factory=list)
    position: Position | None = None
    """Up to where it was read; None until that is known."""


class RedisReader:
    """Reads for all listeners of this process.

    A second stream of its own wakes it when it is to read other channels. When the connection
    breaks, or is silent beyond what was agreed, it makes a new one, and goes on where it was.
    """

    def __init__(self, server: RedisServer, limit: int) -> None:
        self._server = server
        self._limit = limit
        self._channels: dict[str, _Channel] = {}
        self._wake_key = f"wharfinger:bus-reader:{secrets.token_hex(8)}"
        self._woken_at = START
        self._pause = _SHORTEST_PAUSE
        self.loop = Loop("bus reader", self._read_until_lost, _SHORTEST_PAUSE)

    def add(self, channel: str, listener: Listener) -> None:
        """Listen; what it is to hear is told by `begin`."""
        self._channels.setdefault(channel, _Channel()).listeners.append(listener)

    def remove(self, channel: str, listener: Listener) -> None:
        """Listen no more."""
        listeners = self._channels[channel].listeners
        listeners.remove(listener)
        if not listeners:
            del self._channels[channel]

    async def begin(self, channel: str, listener: Listener, since: Position | None) -> None:
        """Let it hear what follows `since`; when that is not known, what is read from now on."""
        known = self._channels[channel]
        listener.since = since or START
        if since is not None and (known.position is None or since < known.position):
            known.position = since  # what others hear twice, they take once
            await self._wake()

    def listeners(self, channel: str) -> list[Listener]:
        """Those of one channel."""
        found = self._channels.get(channel)
        return list(found.listeners) if found else []

    async def stop(self, *, within: float) -> None:
        """Read what is there already, without waiting for more; then end every subscription."""
        await self.loop.stop()
        if self._channels and not self._server.away:
            client = self._server.open_reader()
            try:
                async with asyncio.timeout(within):
                    await self._read(client, block=None)
            except AWAY:
                pass  # it comes late, to those who look
            finally:
                await client.aclose()
        for channel in self._channels.values():
            for listener in channel.listeners:
                listener.queue.end()

    async def _wake(self) -> None:
        async def add(client: Redis) -> None:
            async with client.pipeline(transaction=True) as both:
                both.xadd(self._wake_key, {"wake": ""}, maxlen=1, approximate=False)
                both.expire(self._wake_key, 60)
                await both.execute()

        try:
            await self._server.ask(add)
        except RedisAway:
            return  # it looks by itself, a little later

    async def _read_until_lost(self) -> None:
        """One connection, for as long as it lasts; then a pause, longer from time to time."""
        client = self._server.open_reader()
        self._woken_at = START
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await client.ping()
                await self._locate(client, list(self._channels))
            while True:
                self._server.found()
                self._pause = _SHORTEST_PAUSE
                async with asyncio.timeout(_BLOCK_SECONDS + _PATIENCE_SECONDS):
                    await self._read(client, block=round(_BLOCK_SECONDS * 1000))
        except AWAY as error:
            self._server.lost(error)
        finally:
            await client.aclose()
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    async def _read(self, client: Redis, *, block: int | None) -> None:
        await self._locate(client, [n for n, c in self._channels.items() if c.position is None])
        asked = {
            name: channel.position
            for name, channel in self._channels.items()
            if channel.position is not None
        }
        keys = {key_of(name): name for name in asked}
        streams: dict[Any, Any] = {key: spelled(asked[name]) for key, name in keys.items()}
        streams[self._wake_key] = spelled(self._woken_at)
        answer: Any = await client.xread(streams, count=self._limit, block=block)
        for key, entries in answer or ():
            if key == self._wake_key:
                self._woken_at = position_of(entries[-1][0])
            else:
                self._pass_on(keys[key], asked[keys[key]], entries)

    def _pass_on(self, name: str, asked: Position, entries: list[Any]) -> None:
        channel = self._channels.get(name)
        if channel is None or channel.position is None or channel.position < asked:
            return  # nobody is there any more, or somebody wants it from further back
        for entry in entries:
            channel.position = position_of(entry[0])
            if (message := decode(entry)) is not None:
                for listener in channel.listeners:
                    listener.hear(channel.position, message)

    async def _locate(self, client: Redis, names: list[str]) -> None:
        """Where these channels end now, for those of which that is not known, and for those whose
        stream has begun anew behind where it was."""
        if not names:
            return
        asked = {name: self._channels[name].position for name in names}
        async with client.pipeline(transaction=False) as asking:
            for name in names:
                asking.xrevrange(key_of(name), count=1)
            answers = await asking.execute()
        for name, entries in zip(names, answers, strict=True):
            channel, before = self._channels.get(name), asked[name]
            if channel is None or channel.position != before:
                continue  # somebody has told meanwhile where to begin
            last = position_of(entries[0][0]) if entries else START
            if before is None:
                channel.position = last
            elif last < before:
                channel.position = last
                for listener in channel.listeners:
                    listener.since = listener.since and last
