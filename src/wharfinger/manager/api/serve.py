"""The HTTP server, inside an event loop that others share."""

import asyncio
import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp

from wharfinger.domain.errors import WharfingerError

log = structlog.get_logger()

KEEP_ALIVE_SECONDS: Final = 75
"""How long an idle connection stays open. Longer than clients reuse one (15 s for aiohttp, 60 s for
common proxies): a connection closed under a request looks like a lost request."""
GRACE_SECONDS: Final = 3
"""How long requests in hand may take when the server stops; streams end at once by `drain`."""
UNREAD_SECONDS: Final = 30
"""How long a client may leave what was sent unread before the kernel closes its connection."""
_BACKLOG: Final = 1024
_PROBES: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""Within a minute a client that vanished is found, also where nothing is sent to it."""


class CannotListen(WharfingerError):
    """The address cannot be listened on."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for every address the host name has, all on one port (0: any free one).

    `::` takes IPv4 as well. Raises `CannotListen` naming the address that is taken; an address
    family the machine does not have is left out while another one is there.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise CannotListen(f"{host} is no address to listen on: {error}", host=host) from error
    sockets: list[socket.socket] = []
    missing: list[OSError] = []
    for family, _, _, _, address in dict.fromkeys(found):
        chosen = sockets[0].getsockname()[1] if sockets else port
        where = (address[0], chosen, *address[2:])
        try:
            sockets.append(_listen(socket.AddressFamily(family), where))
        except OSError as error:
            if error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                missing.append(error)
                continue
            for bound in sockets:
                bound.close()
            shown = f"{address[0]} port {chosen}"
            raise CannotListen(
                f"cannot listen on {shown}: {error.strerror}", host=str(address[0]), port=chosen
            ) from error
    if not sockets:
        reason = missing[0].strerror if missing else "it has no address"
        raise CannotListen(f"cannot listen on {host}: {reason}", host=host, port=port)
    return sockets


class ApiServer:
    """Serves one application on sockets that listen already.

    It has no signal handlers. Stopping before it serves and stopping twice are fine.
    """

    def __init__(
        self, app: ASGIApp, sockets: Sequence[socket.socket], drain: asyncio.Event
    ) -> None:
        self._sockets = list(sockets)
        self._drain = drain
        self._ended = asyncio.Event()
        self._serving = False
        self._server = _Server(
            uvicorn.Config(
                app,
                lifespan="off",
                http="h11",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._sockets[0].getsockname()[1])

    async def serve(self) -> None:
        """Serve until `stop`; connections that outlast the grace are cut."""
        if self._server.should_exit:
            return
        self._serving = True
        try:
            await self._server.serve(sockets=self._sockets)
        finally:
            self._server.cut_connections()
            self._close_sockets()
            self._ended.set()

    async def stop(self) -> None:
        """End streams, finish what is in hand, and close; at most about `GRACE_SECONDS`."""
        self._drain.set()
        self._server.should_exit = True
        if self._serving:
            await self._ended.wait()
        else:
            self._close_sockets()

    def _close_sockets(self) -> None:
        for bound in self._sockets:
            bound.close()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: those are the composition root's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def cut_connections(self) -> None:
        """Abort what is still connected: a client that reads nothing would hold it for ever."""
        for connection in list(self.server_state.connections):
            transport = connection.transport
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()


def _listen(family: socket.AddressFamily, address: tuple[str | int, ...]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            only = address[0] != "::"
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        # accepted connections inherit these
        for level, option, value in _PROBES:
            bound.setsockopt(level, option, value)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        bound.bind(address)
        bound.listen(_BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
