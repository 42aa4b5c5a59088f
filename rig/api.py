"""The manager's API on a port: real storage, tasks and tokens; what is behind it otherwise answers
as it is told to."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from rig.session_views import session_view
from wharfinger.contracts.ingest import (
    Acknowledgement,
    EngineFacts,
    Registered,
    Registration,
    Report,
)
from wharfinger.domain.errors import Unauthenticated, UnknownId, UnknownRegistry
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.access.service import Access
from wharfinger.manager.api.app import create_app
from wharfinger.manager.api.metrics import Metrics
from wharfinger.manager.api.serve import ApiServer, listen
from wharfinger.manager.api.services import (
    LogStream,
    Services,
    StreamEvent,
    Tasks,
    TransitionView,
)
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.fleet.views import AgentImageView, AgentView
from wharfinger.manager.images.listing import ImageView
from wharfinger.manager.sessions.logs import KernelLogs
from wharfinger.manager.sessions.requests import SessionRequest
from wharfinger.manager.sessions.views import SessionView
from wharfinger.manager.sessions.watch import SessionWatch
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.transitions import Transition

AGENT_CREDENTIAL = "agent-credential"


def agent_view(agent_id: str) -> AgentView:
    """An agent that is UP."""
    return AgentView(
        id=agent_id,
        scaling_group="default",
        status=AgentStatus.UP,
        cordoned=False,
        os="linux",
        architecture="amd64",
        variant="",
        version="0.1.0",
        engine=EngineFacts(kind="docker", version="20.10.24", store="classic"),
        slots={"cpu": 8},
        heard_seconds_ago=0.5,
    )


@dataclass
class ToldFleet:
    """Has the agents it is given, and keeps what agents said."""

    views: dict[str, AgentView] = field(default_factory=lambda: {"one": agent_view("one")})
    registrations: list[Registration] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    async def agents(self) -> Sequence[AgentView]:
        return list(self.views.values())

    async def agent(self, agent_id: str) -> AgentView:
        if agent_id not in self.views:
            raise UnknownId(f"There is no agent {agent_id!r}", id=agent_id)
        return self.views[agent_id]

    async def agent_images(self, agent_id: str) -> Sequence[AgentImageView]:
        await self.agent(agent_id)
        return [AgentImageView("h/app:v1", "sha256:" + "a" * 64, "sha256:" + "b" * 64, 5 * 10**9)]

    async def transitions(self, agent_id: str) -> Sequence[TransitionView]:
        await self.agent(agent_id)
        return [Transition(None, "JOINING", 1.0, "joined", f"agent {agent_id}")]

    async def cordon(self, agent_id: str, *, by: str) -> AgentView:
        return await self._change(agent_id, by, cordoned=True)

    async def uncordon(self, agent_id: str, *, by: str) -> AgentView:
        return await self._change(agent_id, by, cordoned=False)

    async def retire(self, agent_id: str, *, by: str) -> AgentView:
        return await self._change(agent_id, by, status=AgentStatus.RETIRED)

    async def register(self, said: Registration, bearer: str, /) -> Registered:
        _check(bearer)
        self.registrations.append(said)
        return Registered(credential=AGENT_CREDENTIAL)

    async def report(self, said: Report, bearer: str, /) -> Acknowledgement:
        _check(bearer)
        self.reports.append(said)
        return Acknowledgement(
            sequence=0, inventory_version=said.inventory_version, report_seconds=1.0
        )

    async def _change(self, agent_id: str, by: str, **changes: Any) -> AgentView:
        assert by.startswith("user ")
        self.views[agent_id] = replace(await self.agent(agent_id), **changes)
        return self.views[agent_id]


@dataclass
class ToldImages:
    """Starts `task_id`, or raises `refusal`."""

    task_id: str = "task-1"
    refusal: Exception | None = None
    views: Sequence[ImageView] = ()
    asked: list[tuple[Sequence[str], Sequence[str], str]] = field(default_factory=list)

    async def preload(
        self, targets: Sequence[str], references: Sequence[str], *, who: Principal
    ) -> str:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((targets, references, who.user_id))
        return self.task_id

    unload = preload

    async def list(
        self,
        *,
        who: Principal,
        reference: str | None = None,
        registry: str | None = None,
        statuses: Collection[str] = (),
        agent_id: str | None = None,
        after: str | None = None,
        limit: int,
    ) -> Sequence[ImageView]:
        del who
        found = [
            view
            for view in self.views
            if (reference is None or reference in view.reference)
            and (agent_id is None or agent_id in {each.agent_id for each in view.agents})
            and (after is None or view.key > after)
        ]
        return found[:limit]


@dataclass(frozen=True)
class ToldRegistry:
    """A registry."""

    host: str
    url: str
    username: str | None


@dataclass
class ToldRegistries:
    """Remembers registries, and raises `refusal` on adding."""

    known: dict[str, ToldRegistry] = field(default_factory=dict)
    refusal: Exception | None = None

    async def add(
        self, url: str, username: str | None, password: str | None, *, who: Principal
    ) -> ToldRegistry:
        del password, who
        if self.refusal is not None:
            raise self.refusal
        host = url.partition("://")[2]
        self.known[host] = ToldRegistry(host, url, username)
        return self.known[host]

    async def list(self) -> Sequence[ToldRegistry]:
        return list(self.known.values())

    async def remove(self, host: str, *, who: Principal) -> ToldRegistry:
        del who
        if host not in self.known:
            raise UnknownRegistry(f"There is no registry {host!r}", known=sorted(self.known))
        return self.known.pop(host)


@dataclass
class ToldSessions:
    """Has the sessions it is given, in the database as well where they are watched or their logs
    read; remembers what it is asked for, and raises `refusal`."""

    views: dict[str, SessionView] = field(default_factory=dict)
    refusal: Exception | None = None
    created: list[tuple[SessionRequest, str]] = field(default_factory=list)
    ended: list[tuple[str, str, str]] = field(default_factory=list)
    watched: SessionWatch | None = None
    logs: KernelLogs | None = None

    async def create(self, request: SessionRequest, *, owner: Principal) -> SessionView:
        if self.refusal is not None:
            raise self.refusal
        self.created.append((request, owner.user_id))
        view = session_view(f"s{len(self.created)}", owner.user_id, owner.name)
        self.views[view.id] = view
        return view

    async def list(
        self,
        *,
        owner_id: str | None,
        statuses: Collection[KernelStatus],
        after: str | None,
        limit: int,
    ) -> Sequence[SessionView]:
        newest_first = sorted(self.views.values(), key=lambda view: view.id, reverse=True)
        return [
            replace(view, kernels=[replace(each, transitions=()) for each in view.kernels])
            for view in newest_first
            if (owner_id is None or view.owner_id == owner_id)
            and (not statuses or view.status in statuses)
            and (after is None or view.id < after)
        ][:limit]

    async def show(self, session_id: str) -> SessionView:
        if session_id not in self.views:
            raise UnknownId(f"There is no session {session_id!r}", id=session_id)
        return self.views[session_id]

    async def of_kernel(self, kernel_id: str) -> SessionView:
        for view in self.views.values():
            if any(kernel.row.id == kernel_id for kernel in view.kernels):
                return view
        raise UnknownId(f"There is no kernel {kernel_id!r}", id=kernel_id)

    async def terminate(self, session_id: str, *, who: Principal) -> SessionView:
        self.ended.append(("terminate", session_id, who.name))
        return await self.show(session_id)

    async def cancel(self, session_id: str, *, who: Principal, forced: bool) -> SessionView:
        self.ended.append(("cancel, forced" if forced else "cancel", session_id, who.name))
        return await self.show(session_id)

    def watch(
        self, session_id: str, *, last_event_id: str | None
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        assert self.watched is not None
        return self.watched.watch(session_id, last_event_id=last_event_id)

    def log(
        self, session_id: str, kernel_id: str | None, *, follow: bool, tail_bytes: int
    ) -> AbstractAsyncContextManager[LogStream]:
        assert self.logs is not None
        return self.logs.open(session_id, kernel_id, follow=follow, tail_bytes=tail_bytes)


@dataclass
class Api:
    """What runs. `tokens` are by the user's name: `root` is a superadmin, `ann` and `bob` not."""

    url: str
    server: ApiServer
    metrics: Metrics
    services: Services
    storage: Storage
    background: BackgroundTasks
    fleet: ToldFleet
    images: ToldImages
    registries: ToldRegistries
    sessions: ToldSessions
    tokens: Mapping[str, str]
    client: httpx2.AsyncClient

    def headers(self, user: str | None) -> dict[str, str]:
        """The header that says who asks."""
        return {"Authorization": f"Bearer {self.tokens[user]}"} if user else {}

    async def graphql(self, document: str, *, user: str = "root", **variables: Any) -> Any:
        """The whole answer to an operation, which the server took as one."""
        response = await self.client.post(
            "/graphql",
            json={"query": document, "variables": variables},
            headers=self.headers(user),
        )
        assert response.is_success, response.text
        return response.json()

    async def data(self, document: str, *, user: str = "root", **variables: Any) -> Any:
        """Its data, when there are no errors."""
        answer = await self.graphql(document, user=user, **variables)
        assert "errors" not in answer, answer
        return answer["data"]

    async def user_id(self, name: str) -> str:
        """The id of a user."""
        user_id = await self.services.access.user_id(name)
        assert user_id is not None
        return user_id


def told_services(storage: Storage, tasks: Tasks) -> Services:
    """Services over real storage and these tasks."""
    return Services(
        storage=storage,
        access=Access(storage),
        fleet=ToldFleet(),
        images=ToldImages(),
        tasks=tasks,
        registries=ToldRegistries(),
        sessions=ToldSessions(),
    )


@asynccontextmanager
async def running_api(storage: Storage, *, tasks: Tasks | None = None) -> AsyncIterator[Api]:
    """The API on a free port, with three users. `tasks` stands in for the task framework."""
    bus = MemoryBus()
    background = BackgroundTasks(storage, bus)
    services = replace(
        told_services(storage, tasks or background),
        fleet=(fleet := ToldFleet()),
        images=(images := ToldImages()),
        registries=(registries := ToldRegistries()),
        sessions=(sessions := ToldSessions()),
    )
    access = services.access
    tokens = {}
    for name, role in (("root", "superadmin"), ("ann", "user"), ("bob", "user")):
        await access.add_user(name, role)
        tokens[name] = (await access.create_token(name, "test")).token
    app = create_app(services)
    server = ApiServer(app, listen("127.0.0.1", 0), services.drain)
    url = f"http://127.0.0.1:{server.port}"
    serving = asyncio.create_task(server.serve())
    await background.start()
    async with httpx2.AsyncClient(base_url=url, timeout=10.0) as client:
        try:
            yield Api(
                url,
                server,
                app.state.metrics,
                services,
                storage,
                background,
                fleet,
                images,
                registries,
                sessions,
                tokens,
                client,
            )
        finally:
            await server.stop()
            await serving
            await background.stop()
            await bus.close()


def _check(bearer: str) -> None:
    if bearer != AGENT_CREDENTIAL:
        raise Unauthenticated("This is neither a join token nor an agent's credential")
