"""The dispatcher: a round whenever something changed, and every few seconds.

A round reads a picture, plans on it, and writes what follows in transactions of bounded size. It
remembers nothing that the database does not know: any number of managers may run rounds at once,
and a ring that gets lost costs a period.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlalchemy import Connection

from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.loops import Loop
from wharfinger.manager.scheduler.binding import bind
from wharfinger.manager.scheduler.decisions import Binding, Plan
from wharfinger.manager.scheduler.planning import HOLD_AFTER, plan
from wharfinger.manager.scheduler.reading import read_picture
from wharfinger.manager.scheduler.telling import explain, note_blocked, note_held, release
from wharfinger.manager.sessions.channels import ring
from wharfinger.manager.storage.port import Storage

Observe = Callable[[float, int, Sequence[float]], None]
"""Told after each round: the seconds it took, how many sessions it left in the queue, and of those
it bound that had been held back for a preparation, how many seconds since they first were."""

_KERNELS_PER_TRANSACTION: Final = 1000
_WORDS_PER_TRANSACTION: Final = 500


class Dispatcher:
    """Binds what waits to agents that have room, and says why the rest waits."""

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        *,
        by: str,
        period: float = 5.0,
        hold_after: float = HOLD_AFTER,
        observe: Observe = lambda _seconds, _waiting, _held: None,
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._by = by
        self._period = period
        self._hold_after = hold_after
        self._observe = observe
        self._due: asyncio.TimerHandle | None = None
        self.loop = Loop("schedule", self._round, period)

    async def start(self) -> None:
        """Begin."""
        self.loop.start()

    async def stop(self) -> None:
        """End what runs and wait for it; the transaction under way is finished."""
        await self.loop.stop()
        if self._due is not None:
            self._due.cancel()

    async def run_once(self) -> int:
        """One round; how many sessions it bound."""
        began = time.monotonic()
        found = await self._storage.read(_plan, self._hold_after)
        bound = await self._bind(found)
        await self._release(found)
        await self._explain(found)
        self._wake_for(found, left_out=len(bound) < len(found.bindings))
        held = [
            max(0.0, found.at - binding.session.held_since)
            for binding in found.bindings
            if binding.session.held_since is not None and binding.session.id in bound
        ]
        self._observe(time.monotonic() - began, found.waiting - len(bound), held)
        return len(bound)

    async def _round(self) -> None:
        """A round, and a rest as long as it took: others want the database as well."""
        began = time.monotonic()
        await self.run_once()
        await asyncio.sleep(min(time.monotonic() - began, self._period))

    async def _bind(self, found: Plan) -> set[str]:
        bound = set[str]()
        for batch in _batches(found.bindings):
            done = await self._storage.write(bind, batch, by=self._by)
            bound.update(done)
            if done:
                await ring(self._bus, KernelStatus.SCHEDULED)
        return bound

    async def _release(self, found: Plan) -> None:
        for each in found.releases:
            if await self._storage.write(release, each, by=self._by):
                await ring(self._bus)

    async def _explain(self, found: Plan) -> None:
        if found.blocked or found.unblocked:
            await self._storage.write(note_blocked, found.blocked, found.unblocked)
        if found.held:
            await self._storage.write(note_held, found.held)
        for start in range(0, len(found.words), _WORDS_PER_TRANSACTION):
            words = found.words[start : start + _WORDS_PER_TRANSACTION]
            if await self._storage.write(explain, words):
                await ring(self._bus)

    def _wake_for(self, found: Plan, *, left_out: bool) -> None:
        """Another round at once for what was planned and did not fit any more; and one when the
        next kernel is due."""
        if left_out:
            self.loop.ring()
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if found.next_due is not None:
            self._due = asyncio.get_running_loop().call_later(found.next_due, self.loop.ring)


def _plan(conn: Connection, hold_after: float) -> Plan:
    return plan(read_picture(conn), hold_after=hold_after)


def _batches(bindings: Sequence[Binding]) -> Iterator[list[Binding]]:
    """Whole sessions, as many as make one transaction."""
    batch: list[Binding] = []
    kernels = 0
    for binding in bindings:
        batch.append(binding)
        kernels += len(binding.agent_ids)
        if kernels >= _KERNELS_PER_TRANSACTION:
            yield batch
            batch, kernels = [], 0
    if batch:
        yield batch
