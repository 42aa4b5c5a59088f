"""Ringing loops whenever a session, a kernel or an agent changed."""

import asyncio
from collections.abc import Sequence

from wharfinger.manager.bus.follow import follow
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.fleet.service import CHANGED as FLEET_CHANGED
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions.channels import CHANGED as SESSIONS_CHANGED


class Doorbells:
    """Listens for loops that would otherwise come round once per period."""

    def __init__(self, bus: Bus, loops: Sequence[Loop]) -> None:
        self._bus = bus
        self._loops = loops
        self._listening: list[asyncio.Task[None]] = []

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

    async def _heard(self, _: Message) -> None:
        for loop in self._loops:
            loop.ring()
