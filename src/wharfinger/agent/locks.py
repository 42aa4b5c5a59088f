"""Locks by key: who wants several keys gets them all at once, or waits.

In the agent a key is an image id or a digest. Pull, removal and create of one image exclude each
other, by whichever of its names they know it; creates share it among themselves.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class KeyedLocks:
    """A set of keys, each held by one, or shared by several.

    Nobody holds some of the keys of one request while waiting for others of it, so requests cannot
    block each other in a circle. Waiters are served in the order they came, past one another only
    where they share no key. A task that is cancelled while it waits leaves nothing behind.
    """

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._shared: Counter[str] = Counter()
        self._waiting: list[_Waiter] = []

    def busy(self, *keys: str) -> bool:
        """Whether any of these is held now."""
        return not (self._held | self._shared.keys()).isdisjoint(keys)

    @asynccontextmanager
    async def hold(self, *keys: str) -> AsyncIterator["Hold"]:
        """Hold these keys (and those the hold is extended by) until the context is left."""
        hold = Hold(self)
        await self._take(frozenset(keys), ahead=False)
        hold.keys.update(keys)
        try:
            yield hold
        finally:
            self._release(hold.keys)

    @asynccontextmanager
    async def share(self, key: str) -> AsyncIterator[None]:
        """Hold this key beside others who share it, until the context is left."""
        keys = frozenset({key})
        await self._take(keys, ahead=False, shared=True)
        try:
            yield
        finally:
            self._release(keys, shared=True)

    async def _take(self, keys: frozenset[str], *, ahead: bool, shared: bool = False) -> None:
        waiter = _Waiter(keys, ahead, shared)
        place = len(self._waiting)
        if ahead:
            place = sum(1 for other in self._waiting if other.ahead)
        self._waiting.insert(place, waiter)
        self._grant()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._grant()
            else:  # granted and cancelled in the same moment
                self._release(keys, shared=shared)
            raise

    def _release(self, keys: set[str] | frozenset[str], *, shared: bool = False) -> None:
        if shared:
            self._shared -= Counter(keys)
        else:
            self._held -= keys
        self._grant()

    def _grant(self) -> None:
        held, shared = set(self._held), set(self._shared)
        for waiter in list(self._waiting):
            if waiter.granted.done():  # cancelled, and about to leave by itself
                continue
            if waiter.keys.isdisjoint(held if waiter.shared else held | shared):
                self._waiting.remove(waiter)
                if waiter.shared:
                    self._shared.update(waiter.keys)
                else:
                    self._held |= waiter.keys
                waiter.granted.set_result(None)
            (shared if waiter.shared else held).update(waiter.keys)


class Hold:
    """Keys somebody holds."""

    def __init__(self, locks: KeyedLocks) -> None:
        self._locks = locks
        self.keys: set[str] = set()

    async def extend(self, *keys: str) -> None:
        """Hold these as well, served before all who hold nothing yet.

        Safe from circles as long as what is extended by is never what others extend from: pulls
        extend from a root digest to an image id, and nobody else extends.
        """
        new = frozenset(keys) - self.keys
        await self._locks._take(new, ahead=True)  # noqa: SLF001 - a hold is part of its locks
        self.keys |= new


@dataclass(eq=False, slots=True)
class _Waiter:
    keys: frozenset[str]
    ahead: bool
    shared: bool
    granted: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
