"""The output of containers: its last bytes, and what comes after them."""

from collections.abc import AsyncGenerator

from wharfinger.agent.engine.port import Engine


class Tail:
    """The last `limit` bytes of all that passed, in memory for twice as many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def add(self, piece: bytes) -> None:
        """This came next."""
        self.total += len(piece)
        self._kept += piece
        if len(self._kept) > 2 * self._limit:
            self._cut()

    @property
    def data(self) -> bytes:
        """What is kept."""
        self._cut()
        return bytes(self._kept)

    @property
    def truncated(self) -> bool:
        """Whether there was more."""
        return self.total > self._limit

    def _cut(self) -> None:
        del self._kept[: max(0, len(self._kept) - self._limit)]


class KernelLogs:
    """Reads the logs of an engine's containers, in memory that does not grow with them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def tail(self, container_id: str, limit: int) -> Tail:
        """The last `limit` bytes of what is there now. Raises `EngineError`."""
        last = Tail(limit)
        async with self._engine.container_log(container_id, follow=False) as pieces:
            async for piece in pieces:
                last.add(piece)
        return last

    async def stream(
        self, container_id: str, *, tail_bytes: int, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """The last bytes of what is there, then (with `follow`) what comes until the container
        ends. Raises `EngineError`."""
        last = await self.tail(container_id, tail_bytes)
        if last.data:
            yield last.data
        if not follow:
            return
        known = last.total  # a log that is followed begins anew
        async with self._engine.container_log(container_id, follow=True) as pieces:
            async for piece in pieces:
                fresh = piece[known:]
                known -= len(piece) - len(fresh)
                if fresh:
                    yield fresh
