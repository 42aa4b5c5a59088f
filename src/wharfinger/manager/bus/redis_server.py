"""The Valkey or Redis server as this process knows it: there, or away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog
from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from wharfinger.domain.errors import WharfingerError

log = structlog.get_logger()

T = TypeVar("T")

AWAY: Final = (RedisError, OSError, TimeoutError)
"""What is raised when the server cannot be spoken to."""

_PATIENCE_SECONDS: Final = 1.0
_CONNECTIONS: Final = 8


class RedisAway(WharfingerError):
    """The Redis server did not do this: it is away, or refuses."""


class RedisServer:
    """Short commands to the server, each done or given up within `patience` seconds.

    After one that was not answered the server is `away`: until whoever reads from it all the time
    says it is back, commands are refused without waiting. An outage is logged once. Raises
    `ValueError` for a URL that cannot be one.
    """

    def __init__(self, url: str, *, patience: float = _PATIENCE_SECONDS) -> None:
        self.away = False
        self._url = url
        self._patience = patience
        self._refusal = ""
        pool = BlockingConnectionPool.from_url(
            url, max_connections=_CONNECTIONS, timeout=None, **_options(patience)
        )
        try:
            pool.make_connection()  # type: ignore[no-untyped-call]  # it connects nowhere yet
        except TypeError as error:
            raise ValueError("an option in the URL is unknown") from error
        self._client = Redis.from_pool(pool)

    async def ask(self, command: Callable[[Redis], Awaitable[T]]) -> T:
        """What the server answers. Raises `RedisAway`."""
        if self.away:
            raise RedisAway
        try:
            async with asyncio.timeout(self._patience):
                answer = await command(self._client)
        except ResponseError as error:
            self._note_refusal(str(error))
            raise RedisAway(f"The Redis server refuses: {error}") from error
        except AWAY as error:
            self.lost(error)
            raise RedisAway from error
        self._refusal = ""
        return answer

    def open_reader(self) -> Redis:
        """A client with one connection of its own, that may block. The caller closes it."""
        pool = ConnectionPool.from_url(self._url, max_connections=1, **_options(self._patience))
        return Redis.from_pool(pool)

    def lost(self, error: Exception) -> None:
        """It could not be spoken to."""
        if not self.away:
            self.away = True
            log.warning("redis is away; what it would have passed on comes late", error=repr(error))

    def found(self) -> None:
        """It has just answered."""
        if self.away:
            self.away = False
            log.info("redis is back")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _note_refusal(self, refusal: str) -> None:
        if refusal != self._refusal:
            self._refusal = refusal
            log.warning("redis refuses", error=refusal)


def _options(patience: float) -> dict[str, object]:
    """The library's own time-out of reads breaks blocking ones, and its retries would make
    waiting longer than is wanted here."""
    return {
        "socket_timeout": None,
        "socket_connect_timeout": patience,
        "retry": Retry(NoBackoff(), 0),
        "driver_info": None,  # it would be read from files, for every connection
        "protocol": 2,
        "decode_responses": True,
    }
