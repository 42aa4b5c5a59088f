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
from wharfinger.agent.chains import LayerChains
from wharfinger.agent.containers import ContainerListing
from wharfinger.agent.disk_watch import DiskWatch
from wharfinger.agent.engine.port import Change, Engine
from wharfinger.agent.engine_watch import EngineWatch
from wharfinger.agent.identity import IdentityFile
from wharfinger.agent.inventory import ImageListing
from wharfinger.agent.kernels import Kernels
from wharfinger.agent.link import Link
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.ours import Ours
from wharfinger.agent.outbox import Outbox
from wharfinger.agent.pull_survey import PullSurveyor
from wharfinger.agent.puller import Puller
from wharfinger.agent.removal_survey import RemovalSurveyor
from wharfinger.agent.remover import Remover
from wharfinger.agent.reports import Reporter
from wharfinger.agent.room import Room
from wharfinger.agent.rpc import Surveyors, rpc_app
from wharfinger.contracts.ingest import Capacity, Registered, Registration
from wharfinger.domain.errors import InvalidRequest

log = structlog.get_logger()

KEEP_ALIVE_SECONDS: Final = 30
"""Longer than the manager keeps its connections."""
GRACE_SECONDS: Final = 1
"""For calls under way when the agent ends."""
NETWORKS: Final = frozenset({"default", "none", "host"})
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
    cpu: int | None = None
    """Thousandths of a processor that sessions may use; None means all the engine tells of."""
    mem: int | None = None
    """Bytes that sessions may use; None means all the engine tells of."""
    gpu: int = 0
    """Graphics processors that sessions may use: the devices `0` to `gpu - 1`."""
    network: str = "default"
    """What containers are connected to: `default` (what the engine does), `none` or `host`."""

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            raise InvalidRequest(
                f"{self.network!r} is no network for containers: choose default, none or host"
            )


class Agent:
    """One incarnation of an agent beside one engine. The engine stays its caller's to close."""

    def __init__(self, settings: AgentSettings, engine: Engine) -> None:
        self.started = asyncio.Event()
        """Set once the manager knows this incarnation."""
        self.incarnation = uuid.uuid4().hex
        self._settings = settings
        self._call_token = secrets.token_urlsafe(32)
        self._news = news = asyncio.Event()
        locks = KeyedLocks()
        outbox = Outbox(news)
        self._ours = Ours(settings.agent_id)
        images = ImageListing(engine, news)
        containers = ContainerListing(engine, self._ours, news)
        self._engine = EngineWatch(
            engine, news, {Change.IMAGES: images, Change.CONTAINERS: containers}
        )
        self._disk = DiskWatch(engine)
        chains = LayerChains(engine)
        room = Room(engine, chains)
        self._puller = Puller(
            engine,
            locks,
            outbox,
            room=room,
            describe=self._engine.describe,
            inactivity_seconds=settings.inactivity_seconds,
        )
        self._remover = Remover(engine, locks)
        self._surveyors = Surveyors(
            removals=RemovalSurveyor(engine, self._ours, chains),
            pulls=PullSurveyor(engine, room, self._engine.describe),
        )
        self._kernels = Kernels(
            engine,
            locks=locks,
            ours=self._ours,
            containers=containers,
            gpus=settings.gpu,
            network=settings.network,
        )
        self._reporter = Reporter(
            self.incarnation,
            outbox=outbox,
            puller=self._puller,
            engine=self._engine,
            images=images,
            containers=containers,
            kernels=self._kernels,
            disk=self._disk,
            capacity=self._capacity,
        )

    async def run(self) -> None:
        """Serve the manager until cancelled; then pulls are aborted and servers closed,
        and containers stay as they are.

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
            registered=self._registered,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._serve(listener), name="agent rpc")
                group.create_task(self._engine.run(), name="agent engine")
                group.create_task(self._disk.run(), name="agent disk")
                group.create_task(self._report(link), name="agent link")
        except BaseExceptionGroup as ends:
            raise ends.exceptions[0] from None  # one part ended; the others were cancelled
        finally:
            listener.close()
            await self._puller.close()
            await self._remover.close()
            await self._kernels.close()

    async def _report(self, link: Link) -> None:
        await self._engine.look()
        await link.run()

    def _registered(self, answer: Registered) -> None:
        self._ours.join(answer.cluster_id)
        self.started.set()

    async def _serve(self, listener: socket.socket) -> None:
        closing = asyncio.Event()
        app = rpc_app(
            incarnation=self.incarnation,
            call_token=self._call_token,
            puller=self._puller,
            remover=self._remover,
            surveyors=self._surveyors,
            kernels=self._kernels,
            closing=closing,
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
            closing.set()
            server.should_exit = True
            await serving

    def _registration(self, address: str) -> Registration:
        platform = self._engine.platform
        facts = self._engine.facts
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
            capacity=self._capacity(),
        )

    def _capacity(self) -> Capacity | None:
        """What the settings say, and else the engine; None while it has never told."""
        settings, seen = self._settings, self._engine.description
        cpu = settings.cpu if settings.cpu is not None or seen is None else seen.cpus * 1000
        mem = settings.mem if settings.mem is not None or seen is None else seen.memory
        if cpu is None or mem is None:
            return None
        return Capacity(cpu=cpu, mem=mem, gpu=settings.gpu)


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
