"""The agent as a whole: its parts put together, run, and ended in order."""

import asyncio
import secrets
import socket
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
import uvicorn

import wharfinger
from wharfinger.agent.engine.port import Engine
from wharfinger.agent.identity import IdentityFile
from wharfinger.agent.inventory import InventoryWatch
from wharfinger.agent.link import Link
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.outbox import Outbox
from wharfinger.agent.puller import Puller
from wharfinger.agent.remover import Remover
from wharfinger.agent.reports import Reporter
from wharfinger.agent.rpc import rpc_app
from wharfinger.contracts.ingest import Registration
from wharfinger.domain.errors import InvalidRequest

log = structlog.get_logger()

KEEP_ALIVE_SECONDS: Final = 30
"""Longer than the manager keeps its connections."""
GRACE_SECONDS: Final = 1
"""For calls under way when the agent ends."""
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What an agent is told at its start."""

    agent_id: str
    scaling_group: str
    manager_url: str
    state_dir: Path
    join_token: str | None = None
    """Needed only until the agent has joined once."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 means a free one."""
    advertise: str | None = None
    """The URL under which managers reach this agent, when host and port are not it."""
    inactivity_seconds: float | None = None
    """How long a pull may make no progress; None means what suits the engine."""


class Agent:
    """One incarnation of an agent beside one engine. The engine stays its caller's to close."""

    def __init__(self, settings: AgentSettings, engine: Engine) -> None:
        self.started = asyncio.Event()
        """Set once the manager knows this incarnation."""
        self.incarnation = uuid.uuid4().hex
        self._settings = settings
        self._call_token = secrets.token_urlsafe(32)
        news = asyncio.Event()
        locks = KeyedLocks()
        outbox = Outbox(news)
        self._inventory = InventoryWatch(engine, news)
        self._puller = Puller(engine, locks, outbox, inactivity_seconds=settings.inactivity_seconds)
        self._remover = Remover(engine, locks)
        self._reporter = Reporter(self.incarnation, outbox, self._puller, self._inventory)
        self._news = news

    async def run(self) -> None:
        """Serve the manager until cancelled; then pulls are aborted and servers closed.

        Raises what ends an agent for good: `Link.run` says what, `OSError` when its address
        cannot be bound, `InvalidRequest` when managers could not be told an address.
        """
        settings = self._settings
        if settings.advertise is None and settings.host in _WILDCARDS:
            raise InvalidRequest(
                f"an agent that listens on every interface ({settings.host}) must be told the URL "
                "under which managers reach it"
            )
        listener = _listen(settings.host, settings.port)
        address = settings.advertise or _address(settings.host, listener)
        link = Link(
            settings.manager_url,
            identity_file=IdentityFile(settings.state_dir, settings.agent_id),
            join_token=settings.join_token,
            registration=lambda: self._registration(address),
            reporter=self._reporter,
            news=self._news,
            registered=self.started,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._serve(listener), name="agent rpc")
                group.create_task(self._inventory.run(), name="agent inventory")
                group.create_task(self._report(link), name="agent link")
        except BaseExceptionGroup as ends:
            raise ends.exceptions[0] from None  # one part ended; the others were cancelled
        finally:
            listener.close()
            await self._puller.close()
            await self._remover.close()

    async def _report(self, link: Link) -> None:
        await self._inventory.look()
        await link.run()

    async def _serve(self, listener: socket.socket) -> None:
        app = rpc_app(
            incarnation=self.incarnation,
            call_token=self._call_token,
            puller=self._puller,
            remover=self._remover,
        )
        server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="agent server")
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await serving

    def _registration(self, address: str) -> Registration:
        platform = self._inventory.platform
        facts = self._inventory.facts
        return Registration(
            agent_id=self._settings.agent_id,
            scaling_group=self._settings.scaling_group,
            incarnation=self.incarnation,
            address=address,
            call_token=self._call_token,
            version=wharfinger.__version__,
            os=platform.os,
            architecture=platform.architecture,
            variant=platform.variant,
            engine=facts if facts.kind else None,
        )


class _Server(uvicorn.Server):
    """Signals belong to the program, not to one of its servers."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that the agent can be called before it says where it is."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def _address(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
