"""The output of a session's kernels: from their agent while there is a container, then what was
kept of it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection, select

from wharfinger.domain.errors import Conflict, UnknownId
from wharfinger.domain.sessions import WITH_CONTAINER
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.bells import SessionBells
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage


class LogCalls(Protocol):
    """What is asked of agents."""

    def kernel_log(
        self, agent_id: str, kernel_id: str, *, follow: bool, tail_bytes: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `AgentCalls.kernel_log`."""


class Log:
    """The output in pieces. `truncated`: the kept one had lost its beginning."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], *, truncated: bool = False) -> None:
        self._pieces = pieces
        self.truncated = truncated

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Read no more."""
        await self._pieces.aclose()


@dataclass(frozen=True, slots=True)
class _Found:
    kernel: Kernel
    kept: bytes | None
    truncated: bool

    def kept_log(self, tail_bytes: int) -> Log | None:
        """What was kept, if anything was."""
        if self.kept is None:
            return None
        return Log(_kept(self.kept, tail_bytes), truncated=self.truncated)


class KernelLogs:
    """Opens logs."""

    def __init__(self, storage: Storage, calls: LogCalls, bells: SessionBells) -> None:
        self._storage = storage
        self._calls = calls
        self._bells = bells

    @asynccontextmanager
    async def open(
        self, session_id: str, kernel_id: str | None, *, follow: bool, tail_bytes: int
    ) -> AsyncIterator[Log]:
        """The last bytes of a kernel's output (None: the main one's).

        With `follow` also what comes until it ends; a container that is not there yet is waited
        for, and when the session ends before, so do the pieces. Raises `UnknownId`, `Conflict`
        when there is nothing to read, saying why, and `AgentUnreachable`.
        """
        async with AsyncExitStack() as opened:
            found = await self._storage.read(_find, session_id, kernel_id)
            log = await self._now(found, opened, follow=follow, tail_bytes=tail_bytes)
            if log is None:
                if not follow or not found.kernel.is_open:
                    raise _nothing_to_read(found.kernel)
                log = Log(self._later(session_id, found.kernel.id, tail_bytes))
            yield await opened.enter_async_context(aclosing(log))

    async def _now(
        self, found: _Found, opened: AsyncExitStack, *, follow: bool, tail_bytes: int
    ) -> Log | None:
        """What can be read at this moment, if anything."""
        kernel = found.kernel
        if found.kept is not None:
            return found.kept_log(tail_bytes)
        if kernel.status not in WITH_CONTAINER or kernel.agent_id is None:
            return None
        call = self._calls.kernel_log(
            kernel.agent_id, kernel.id, follow=follow, tail_bytes=tail_bytes
        )
        try:
            return Log(_passed_on(await opened.enter_async_context(call)))
        except UnknownId:
            pass
        # not made yet, or gone since it was read: then its log may have been kept
        found = await self._storage.read(_find, kernel.session_id, kernel.id)
        return found.kept_log(tail_bytes)

    async def _later(
        self, session_id: str, kernel_id: str, tail_bytes: int
    ) -> AsyncGenerator[bytes, None]:
        with self._bells.waiting(session_id) as bell:
            while not bell.closed:
                found = await self._storage.read(_find, session_id, kernel_id)
                async with AsyncExitStack() as opened:
                    log = await self._now(found, opened, follow=True, tail_bytes=tail_bytes)
                    if log is not None:
                        await opened.enter_async_context(aclosing(log))
                        async for piece in log:
                            yield piece
                        return
                if not found.kernel.is_open:
                    return
                await bell.wait()
        raise Conflict("this manager is stopping: ask again")


def _find(conn: Connection, session_id: str, kernel_id: str | None) -> _Found:
    """The kernel, and what was kept of its log."""
    of_session = kernels.of_session(conn, session_id)
    if not of_session:
        raise UnknownId(f"There is no session {session_id!r}", id=session_id)
    wanted = [k for k in of_session if kernel_id is None or k.id == kernel_id]
    if not wanted:
        raise UnknownId(f"Session {session_id} has no kernel {kernel_id!r}", id=kernel_id)
    kernel = wanted[0]
    log = tables.kernel_logs
    row = conn.execute(select(log).where(log.c.kernel_id == kernel.id)).one_or_none()
    if row is None:
        return _Found(kernel, None, truncated=False)
    return _Found(kernel, bytes(row.data), truncated=row.truncated)


async def _kept(data: bytes, tail_bytes: int) -> AsyncGenerator[bytes, None]:
    yield data[len(data) - min(tail_bytes, len(data)) :]


async def _passed_on(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        yield piece


def _nothing_to_read(kernel: Kernel) -> Conflict:
    why = f" ({kernel.status_info})" if kernel.status_info else ""
    if kernel.is_open:
        message = f"Kernel {kernel.id} has no container: it is {kernel.status}{why}"
    elif kernel.started_at is None:
        message = f"Kernel {kernel.id} never ran: it ended as {kernel.status}{why}"
    else:
        message = f"The log of kernel {kernel.id} was not kept: it ended as {kernel.status}{why}"
    return Conflict(message, kernelId=kernel.id, status=kernel.status.value)
