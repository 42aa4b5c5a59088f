"""Ringing loops whenever a session, a kernel or an agent changed."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.follow import follow
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.fleet.service import CHANGED as FLEET_CHANGED
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions.channels import CHANGED as SESSIONS_CHANGED

OTHERS_AFTER: Final = 0.2
"""Seconds. When it is known whose turn it is, the other loops look a little later, all at once:
a kernel on its way to its container is not to wait for those who have nothing to do."""


class Doorbells:
    """Listens for loops that would otherwise come round once per period.

    `turns` names, by the state kernels came to, the loops that move them on from it.
    """

    def __init__(
        self,
        bus: Bus,
        loops: Collection[Loop],
        turns: Mapping[KernelStatus, Collection[Loop]],
    ) -> None:
        self._bus = bus
        self._loops = loops
        self._turns = turns
        self._listening: list[asyncio.Task[None]] = []
        self._later: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to listen; a second start changes nothing."""
        if not self._listening:
            self._listening = [
                asyncio.create_task(
                    follow(self._bus, channel, self._heard), name=f"doorbell {channel}"
                )
                for channel in (SESSIONS_CHANGED, FLEET_CHANGED)
            ]

    async def stop(self) -> None:
        """Listen no more."""
        listening, self._listening = self._listening, []
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        if self._later is not None:
            self._later.cancel()

    async def _heard(self, message: Message) -> None:
        entered = message.data.get("entered")
        if entered is None:
            self._ring_all()
            return
        for loop in self._turns.get(KernelStatus(entered), ()):
            loop.ring()
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(OTHERS_AFTER, self._ring_all)

    def _ring_all(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        for loop in self._loops:
            loop.ring()
