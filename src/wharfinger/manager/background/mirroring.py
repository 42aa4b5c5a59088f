"""Telling a mirror which tasks are outstanding."""

from collections.abc import Collection

from wharfinger.manager.background.port import OutstandingMirror
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.background.turns import Turns, Waits
from wharfinger.manager.loops import Loop
from wharfinger.manager.storage.port import Storage


class Mirroring:
    """Keeps alive what this manager runs, and what waits for its turn, whoever made it.

    Each round is good for as long as a lease: what a dead manager held is gone with it, until
    another goes on with it.
    """

    def __init__(
        self,
        mirror: OutstandingMirror,
        storage: Storage,
        waits: Waits,
        timing: Timing,
        *,
        held: Collection[str],
    ) -> None:
        self._mirror = mirror
        self._storage = storage
        self._waits = waits
        self._seconds = timing.lease
        self._held = held
        self._ended: set[str] = set()
        self.loop = Loop("outstanding tasks", self._tell, timing.renew)

    def began(self) -> None:
        """There is one more."""
        self.loop.ring()

    def ended(self, task_id: str) -> None:
        """One has ended."""
        self._ended.add(task_id)
        self.loop.ring()

    async def _tell(self) -> None:
        ended, self._ended = self._ended, set()
        await self._mirror.remove(ended, self._waits)
        turns = await self._storage.read(Turns.read, self._waits)
        await self._mirror.keep(turns.outstanding(self._held), seconds=self._seconds)
