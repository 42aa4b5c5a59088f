"""Waking those who wait for a session to change: one reading for all of them.

The bus rings for any change of any session; fifty watchers that each read their own session then
would be fifty readings. Here one query looks at all sessions that are waited for, and only those
who wait for one that changed are woken.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from sqlalchemy import Connection, select

from wharfinger.manager.bus.follow import follow
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.fleet.service import CHANGED as FLEET_CHANGED
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions.channels import CHANGED
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.tables import kernels

SPACING_SECONDS: Final = 0.05
"""Between two readings at least, however often the bus rings."""
REREAD_SECONDS: Final = 2.0
"""Between two readings at most: what the bus lost comes late, but it comes."""
_RETRY_SECONDS: Final = 1.0

_SEEN: Final = (
    kernels.c.id,
    kernels.c.status,
    kernels.c.changed_at,
    kernels.c.status_info,
    kernels.c.status_data,
    kernels.c.root_digest,
    kernels.c.agent_id,
    kernels.c.attempt_id,
    kernels.c.attempts,
    kernels.c.exit_code,
)


class Bell:
    """One waiter's bell: rung when its session may have changed, or when nobody looks any more."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.closed = False

    def ring(self) -> None:
        """Wake the waiter, now or when it next waits."""
        self._event.set()

    def close(self) -> None:
        """Wake the waiter for good."""
        self.closed = True
        self._event.set()

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # it is no error
        """Whether it was rung before `timeout` (seconds) was over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
        rung = self._event.is_set()
        if not self.closed:
            self._event.clear()
        return rung


class SessionBells:
    """Looks at the sessions that are waited for, and rings for those that changed."""

    def __init__(self, storage: Storage, bus: Bus, *, reread: float = REREAD_SECONDS) -> None:
        self._storage = storage
        self._bus = bus
        self._waiting: dict[str, set[Bell]] = {}
        self._seen: Mapping[str, Any] = {}
        self._closed = False
        self._look = Loop("session bells", self.look, reread)
        self.loops = (
            self._look,
            Loop("session bells: sessions", self._follow_sessions, _RETRY_SECONDS),
            Loop("session bells: agents", self._follow_agents, _RETRY_SECONDS),
        )

    def start(self) -> None:
        """Begin to look."""
        for loop in self.loops:
            loop.start()

    async def stop(self) -> None:
        """Look no more, and wake everybody for good."""
        self._closed = True
        for loop in self.loops:
            await loop.stop()
        for bells in self._waiting.values():
            for bell in bells:
                bell.close()

    @contextmanager
    def waiting(self, session_id: str) -> Iterator[Bell]:
        """A bell that is rung for every change after this, and at times without one."""
        bell = Bell()
        if self._closed:
            bell.close()
        self._waiting.setdefault(session_id, set()).add(bell)
        try:
            yield bell
        finally:
            self._waiting[session_id].discard(bell)
            if not self._waiting[session_id]:
                del self._waiting[session_id]

    async def look(self) -> None:
        """Look once at all that are waited for."""
        if not self._waiting:
            self._seen = {}
            return
        before, self._seen = (
            self._seen,
            await self._storage.read(_sights, tuple(self._waiting)),
        )
        for session_id, bells in self._waiting.items():
            if session_id not in before or self._seen.get(session_id) != before[session_id]:
                for bell in bells:
                    bell.ring()
        await asyncio.sleep(SPACING_SECONDS)

    async def _follow_sessions(self) -> None:
        await follow(self._bus, CHANGED, self._heard)

    async def _follow_agents(self) -> None:
        await follow(self._bus, FLEET_CHANGED, self._heard)

    async def _heard(self, _message: Message) -> None:
        self._look.ring()


def _sights(conn: Connection, session_ids: Collection[str]) -> dict[str, list[Any]]:
    rows = conn.execute(
        select(kernels.c.session_id, *_SEEN)
        .where(kernels.c.session_id.in_(session_ids))
        .order_by(kernels.c.session_id, kernels.c.position)
    )
    sights: dict[str, list[Any]] = {}
    for session_id, *sight in rows:
        sights.setdefault(session_id, []).append(sight)
    return sights
