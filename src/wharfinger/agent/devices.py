"""The host's graphics processors, and which of them containers of ours hold."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

from wharfinger.agent.engine.port import Engine, EngineError
from wharfinger.agent.ours import GPUS, Ours
from wharfinger.domain.failures import Failure, FailureClass

_ENDED_STATES: Final = frozenset({"exited", "stopped", "dead", "removing"})


class Devices:
    """`count` devices, with the ids `"0"` to `count - 1`. A container holds those its label names
    until it has ended."""

    def __init__(self, engine: Engine, ours: Ours, count: int) -> None:
        self._engine = engine
        self._ours = ours
        self._count = count
        self._choosing = asyncio.Lock()

    @asynccontextmanager
    async def chosen(self, number: int) -> AsyncIterator[tuple[str, ...]]:
        """The lowest free ids. Nobody else chooses before the context is left: by then a container
        holds them. Raises `EngineError`, also when too few are free."""
        if number == 0:
            yield ()
            return
        async with self._choosing:
            yield lowest_free(number, self._count, await self._held())

    async def _held(self) -> set[str]:
        return {
            gpu
            for each in await self._engine.containers()
            if self._ours.kernel_of(each.labels) and each.state not in _ENDED_STATES
            for gpu in each.labels.get(GPUS, "").split(",")
        }


def lowest_free(number: int, count: int, held: Collection[str]) -> tuple[str, ...]:
    """So many of the ids below `count` that are not held; raises `EngineError` when they are
    not there."""
    free = [gpu for gpu in map(str, range(count)) if gpu not in held]
    if len(free) < number:
        message = f"{number} graphics processors were asked for, {len(free)} of {count} are free"
        raise EngineError(Failure(FailureClass.ENGINE_ERROR, message))
    return tuple(free[:number])
