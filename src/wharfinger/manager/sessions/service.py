"""Sessions as asked for: queued, shown, watched and ended. The loops do the rest."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from sqlalchemy import Connection

from wharfinger.domain.errors import Conflict
from wharfinger.domain.sessions import TERMINAL, Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.access import audit
from wharfinger.manager.access.audit import Action
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.sessions import creating, endings, kernels, reading
from wharfinger.manager.sessions.bells import SessionBells
from wharfinger.manager.sessions.channels import ring
from wharfinger.manager.sessions.live import LivePulls
from wharfinger.manager.sessions.logs import KernelLogs, Log
from wharfinger.manager.sessions.requests import SessionRequest, check
from wharfinger.manager.sessions.story import SessionEvent
from wharfinger.manager.sessions.views import SessionView
from wharfinger.manager.sessions.watch import SessionWatch
from wharfinger.manager.storage.port import Storage

_RUNS = (KernelStatus.RUNNING, KernelStatus.TERMINATING)


class Sessions:
    """What people do with sessions. Methods about one raise `UnknownId`."""

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        registries: Registries,
        live: LivePulls,
        bells: SessionBells,
        logs: KernelLogs,
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._registries = registries
        self._live = live
        self._logs = logs
        self._watch = SessionWatch(bells, live, self._read)

    async def create(self, request: SessionRequest, *, owner: Principal) -> SessionView:
        """Queue a session, without asking any registry: one that is away fails nobody here.

        Raises `InvalidRequest`, `InvalidReference`, `UnknownRegistry`, `FailureError`
        (`not-found`: an image its owner may not use), `UnknownSelector`, `Forbidden` or
        `Conflict`; nothing is half made.
        """
        references = check(request)
        for registry in sorted({reference.registry for reference in references}):
            await self._registries.require(registry)
        view = await self._storage.write(creating.create, request, references, owner)
        await ring(self._bus, KernelStatus.PENDING)
        return view

    async def list(
        self,
        *,
        owner_id: str | None,
        statuses: Collection[KernelStatus],
        after: str | None,
        limit: int,
    ) -> Sequence[SessionView]:
        """Newest first; `after` is the id of the last one seen."""
        views = await self._storage.read(
            reading.page, owner_id=owner_id, statuses=statuses, after=after, limit=limit
        )
        return [self._with_pulls(view) for view in views]

    async def show(self, session_id: str) -> SessionView:
        """One session."""
        return self._with_pulls(await self._read(session_id))

    async def of_kernel(self, kernel_id: str) -> SessionView:
        """The session this kernel belongs to."""
        return self._with_pulls(await self._storage.read(reading.of_kernel, kernel_id))

    async def terminate(self, session_id: str, *, who: Principal) -> SessionView:
        """End it, whatever its state; one that has ended is answered as it is."""
        view = await self._storage.write(_terminate, session_id, who)
        await ring(self._bus, KernelStatus.TERMINATING)
        return view

    async def cancel(self, session_id: str, *, who: Principal, forced: bool) -> SessionView:
        """End it before it runs; raises `Conflict` when it runs or has ended. `forced` is only
        noted."""
        view = await self._storage.write(_cancel, session_id, who, forced=forced)
        await ring(self._bus, KernelStatus.TERMINATING)
        return view

    def watch(
        self, session_id: str, *, last_event_id: str | None
    ) -> AbstractAsyncContextManager[AsyncIterator[SessionEvent]]:
        """See `SessionWatch.watch`."""
        return self._watch.watch(session_id, last_event_id=last_event_id)

    def log(
        self, session_id: str, kernel_id: str | None, *, follow: bool, tail_bytes: int
    ) -> AbstractAsyncContextManager[Log]:
        """See `KernelLogs.open`."""
        return self._logs.open(session_id, kernel_id, follow=follow, tail_bytes=tail_bytes)

    async def _read(self, session_id: str) -> SessionView:
        return await self._storage.read(reading.one, session_id)

    def _with_pulls(self, view: SessionView) -> SessionView:
        return view.with_pulls(self._live.figures(view.attempts))


def _terminate(conn: Connection, session_id: str, who: Principal) -> SessionView:
    ended = endings.end(
        conn,
        session_id,
        KernelStatus.TERMINATED,
        reason="terminated by request",
        by=f"user {who.name}",
        info=Reason.ENDED_BY_USER,
    )
    view = reading.one(conn, session_id)
    if ended:
        _note_end(conn, who, Action.SESSION_TERMINATE, view)
    return view


def _cancel(conn: Connection, session_id: str, who: Principal, *, forced: bool) -> SessionView:
    for kernel in kernels.of_session(conn, session_id, lock=True):
        if kernel.status in _RUNS or kernel.status in TERMINAL:
            raise Conflict(
                f"session {session_id} cannot be cancelled: kernel {kernel.id} is {kernel.status}; "
                "one that runs is terminated",
                kernelId=kernel.id,
                status=kernel.status.value,
            )
    endings.end(
        conn,
        session_id,
        KernelStatus.CANCELLED,
        reason="cancelled by request",
        by=f"user {who.name}",
        info=Reason.ENDED_BY_USER,
    )
    view = reading.one(conn, session_id)
    _note_end(conn, who, Action.SESSION_CANCEL, view, **({"forced": True} if forced else {}))
    return view


def _note_end(
    conn: Connection, who: Principal, action: Action, view: SessionView, **detail: Any
) -> None:
    """Whose it was is told where somebody else ended it."""
    others = {} if who.user_id == view.owner_id else {"owner": view.owner}
    audit.note(conn, who, action, view.id, name=view.name, **others, **detail)
