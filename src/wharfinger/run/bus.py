"""Which bus a manager is given."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.background.port import OutstandingMirror
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.port import Bus
from wharfinger.run.settings import ManagerSettings


@dataclass(frozen=True, slots=True)
class OpenBus:
    """A bus, and where outstanding tasks are mirrored, if they are."""

    bus: Bus
    outstanding: OutstandingMirror | None = None


@asynccontextmanager
async def open_bus(settings: ManagerSettings) -> AsyncIterator[OpenBus]:
    """Over Valkey or Redis where one is set, else within this process.

    It need not be there yet. Raises `InvalidRequest` for a URL that cannot be one, and where the
    client is not installed.
    """
    if settings.redis_url is None:
        memory = MemoryBus()
        try:
            yield OpenBus(memory)
        finally:
            await memory.close()
        return
    try:
        from wharfinger.manager.background.outstanding import RedisOutstanding  # noqa: PLC0415
        from wharfinger.manager.bus.redis import RedisBus  # noqa: PLC0415 - an extra, as above
        from wharfinger.manager.bus.redis_server import RedisServer  # noqa: PLC0415

        server = RedisServer(settings.redis_url.get_secret_value())
    except ModuleNotFoundError as error:
        raise InvalidRequest("a Redis URL is set, which needs wharfinger[redis]") from error
    except ValueError:
        raise InvalidRequest("the Redis URL is not well formed") from None  # it may name it
    bus = RedisBus(server)
    bus.start()
    try:
        yield OpenBus(bus, RedisOutstanding(server))
    finally:
        await bus.close()
        await server.close()
