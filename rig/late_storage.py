"""A storage that misbehaves: its transactions come late and in any order, until it is cut off."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import Connection

from wharfinger.manager.storage.errors import StorageUnavailable
from wharfinger.manager.storage.port import Storage

P = ParamSpec("P")
T = TypeVar("T")

_OFTEN: Final = 0.3
"""The part of the transactions that come late."""


class LateStorage:
    """Another storage, where a transaction begins up to `latest` seconds after it was asked for.

    What is decided on what was read is then often decided late, as with many managers at once.
    """

    def __init__(self, storage: Storage, random: Random, latest: float) -> None:
        self._storage = storage
        self._random = random
        self._latest = latest
        self._is_cut = False

    async def cut(self) -> None:
        """Let nothing more be read or written: for the database, its manager is dead."""
        self._is_cut = True
        await self._storage.close()

    async def write(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """See the port."""
        await self._be_late()
        return await self._storage.write(function, *args, **kwargs)

    async def read(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """See the port."""
        await self._be_late()
        return await self._storage.read(function, *args, **kwargs)

    async def close(self) -> None:
        """See the port."""
        await self._storage.close()

    async def _be_late(self) -> None:
        if self._random.random() < _OFTEN:
            await asyncio.sleep(self._random.random() * self._latest)
        if self._is_cut:
            raise StorageUnavailable
