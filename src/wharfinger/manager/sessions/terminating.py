"""Ending containers: kernels that are to end, and what is left over of others.

An agent may have several calls at once, each about other containers: one that takes its time to
stop holds nobody up.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import structlog

from wharfinger.contracts.rpc import EndOrder
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.errands import Errands, beside_a_loop
from wharfinger.manager.fleet.calls import AgentCalls
from wharfinger.manager.fleet.pause import Pause
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions.channels import ring
from wharfinger.manager.sessions.ended import apply_ends, apply_removals, to_end
from wharfinger.manager.sessions.leftovers import Leftover
from wharfinger.manager.storage.port import Storage

log = structlog.get_logger()

CALLS_AT_ONCE: Final = 4
"""Of one agent."""
KERNELS_PER_CALL: Final = 4
"""Each may bring a log of 1 MiB with it, and all have to fit into one reply."""


class Terminate:
    """The loop that brings kernels from TERMINATING to their end, and removes what is left over.
    Start and stop it by its own `start` and `stop`."""

    def __init__(
        self, storage: Storage, bus: Bus, calls: AgentCalls, *, by: str, period: float = 2.0
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._calls = calls
        self._by = by
        self._pause = Pause()
        self._errands = Errands(beside_a_loop)
        self._in_hand: set[tuple[str, str]] = set()
        self.loop = Loop("terminate", self.run_once, period)

    async def start(self) -> None:
        """Begin."""
        self.loop.start()

    async def stop(self) -> None:
        """Call nobody any more. What was to end is asked for again by whoever runs next."""
        await self.loop.stop()
        await self._errands.stop()

    async def run_once(self) -> None:
        """Have agents asked for the end of what nobody has in hand."""
        wanted = await self._storage.read(to_end)
        free = sorted(each for each in wanted if each[:2] not in self._in_hand)
        for agent_id, group in groupby(free, key=lambda each: each.agent_id):
            batches = _batches(list(group))
            for lane, batch in zip(self._free_lanes(agent_id), batches, strict=False):
                self._in_hand.update(each[:2] for each in batch)
                self._errands.start(lane, self._end, agent_id, batch)

    def _free_lanes(self, agent_id: str) -> list[str]:
        lanes = [f"{agent_id} {number}" for number in range(CALLS_AT_ONCE)]
        return [lane for lane in lanes if lane not in self._errands.running]

    async def _end(self, agent_id: str, batch: Sequence[Leftover]) -> None:
        try:
            async with self._pause.after_trouble(agent_id):
                await self._end_and_remove(agent_id, batch)
        finally:
            self._in_hand.difference_update(each[:2] for each in batch)
        self.loop.ring()

    async def _end_and_remove(self, agent_id: str, batch: Sequence[Leftover]) -> None:
        orders = [EndOrder(kernel_id=each.kernel_id, want_log=each.want_log) for each in batch]
        answers = await self._calls.end_kernels(agent_id, orders)
        removable = await self._storage.write(apply_ends, agent_id, answers, by=self._by)
        await ring(self._bus)
        if removable:
            removed = await self._calls.remove_kernels(agent_id, removable)
            left = await self._storage.write(apply_removals, agent_id, removed)
            for kernel_id, problem in left:
                log.warning("container left", agent=agent_id, kernel=kernel_id, problem=problem)


def _batches(wanted: Sequence[Leftover]) -> list[Sequence[Leftover]]:
    return [
        wanted[start : start + KERNELS_PER_CALL]
        for start in range(0, len(wanted), KERNELS_PER_CALL)
    ]
