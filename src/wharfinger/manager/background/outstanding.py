"""The outstanding tasks of each category, in Valkey or Redis, for others to read.

`wharfinger:outstanding:<category>` is a sorted set of task ids, each scored by the moment (seconds
since the epoch, by the server's clock) from which on it counts no more. The database decides who
may run; this only mirrors it, and what no manager is left to keep alive is gone by itself.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from wharfinger.manager.bus.redis_server import RedisAway, RedisServer

_KEEP: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for index = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[index]) end
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[1] * 1000))
"""


class RedisOutstanding:
    """The mirror of the port."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    async def keep(self, tasks: Mapping[str, Collection[str]], *, seconds: float) -> None:
        """See the port."""

        async def keep(client: Any) -> None:
            async with client.pipeline(transaction=True) as all_of_them:
                for category, task_ids in tasks.items():
                    all_of_them.eval(_KEEP, 1, key_of(category), seconds, *task_ids)
                await all_of_them.execute()

        if tasks:
            await self._ask(keep)

    async def remove(self, task_ids: Collection[str], categories: Collection[str]) -> None:
        """See the port."""

        async def remove(client: Any) -> None:
            async with client.pipeline(transaction=True) as all_of_them:
                for category in categories:
                    all_of_them.zrem(key_of(category), *task_ids)
                await all_of_them.execute()

        if task_ids:
            await self._ask(remove)

    async def _ask(self, command: Callable[[Any], Awaitable[None]]) -> None:
        with suppress(RedisAway):
            await self._server.ask(command)


def key_of(category: str) -> str:
    """The sorted set of a category."""
    return f"wharfinger:outstanding:{category}"
