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
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.access.grants import Grants
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
from wharfinger.manager.catalogue.entries import CatalogueEntry, EntryStatus
from wharfinger.manager.fleet.views import AgentImageView, AgentView
from wharfinger.manager.images.listing import ImageView
from wharfinger.manager.images.plans import PlannedPreload, PlannedUnload, PreloadPlan, UnloadPlan
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

    async def agent_images(self, agent_id: str, *, who: Principal) -> Sequence[AgentImageView]:
        del who
        await self.agent(agent_id)
        return [AgentImageView("h/app:v1", "sha256:" + "a" * 64, "sha256:" + "b" * 64, 5 * 10**9)]

    async def transitions(self, agent_id: str) -> Sequence[TransitionView]:
        await self.agent(agent_id)
        return [Transition(None, "JOINING", 1.0, "joined", f"agent {agent_id}")]

    async def cordon(self, agent_id: str, *, who: Principal) -> AgentView:
        return await self._change(agent_id, who, cordoned=True)

    async def uncordon(self, agent_id: str, *, who: Principal) -> AgentView:
        return await self._change(agent_id, who, cordoned=False)

    async def retire(self, agent_id: str, *, who: Principal) -> AgentView:
        return await self._change(agent_id, who, status=AgentStatus.RETIRED)

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

    async def _change(self, agent_id: str, who: Principal, **changes: Any) -> AgentView:
        assert who.is_superadmin
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

    async def preload_plan(
        self, targets: Sequence[str], references: Sequence[str]
    ) -> Sequence[PreloadPlan]:
        if self.refusal is not None:
            raise self.refusal
        return [
            PreloadPlan(
                agent_id=target,
                reference=reference,
                root_digest="sha256:" + "a" * 64,
                action=PlannedPreload.PULL,
                bytes_total=5 * 10**9,
                bytes_missing=4 * 10**9,
                bytes_needed=8 * 10**9,
                disk_free=9 * 10**9,
                disk_total=10**10,
            )
            for target in targets
            for reference in references
        ]

    async def unload_plan(
        self, targets: Sequence[str], references: Sequence[str]
    ) -> Sequence[UnloadPlan]:
        if self.refusal is not None:
            raise self.refusal
        in_use = Failure(FailureClass.IN_USE, "a session runs it")
        return [
            UnloadPlan(
                agent_id=target,
                reference=reference,
                action=PlannedUnload.FAIL,
                failure=in_use,
                image_id="sha256:" + "b" * 64,
                kernels=("k1",),
                bytes_freed=5 * 10**9,
            )
            for target in targets
            for reference in references
        ]

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
            and (registry is None or registry == view.registry)
            and (not statuses or view.status in statuses)
            and (agent_id is None or agent_id in {each.agent_id for each in view.agents})
            and (after is None or view.key > after)
        ]
        return found[:limit]


@dataclass
class ToldCatalogue:
    """Has `entries` by reference, and raises `refusal`; rescans are `task_id`."""

    task_id: str = "rescan-1"
    refusal: Exception | None = None
    entries: dict[str, CatalogueEntry] = field(default_factory=dict)
    protected: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def register(self, reference: str, *, who: Principal) -> CatalogueEntry:
        self._note("register", who)
        self.entries[reference] = catalogue_entry(reference)
        return self.entries[reference]

    async def forget(self, reference: str, *, who: Principal) -> CatalogueEntry:
        self._note("forget", who)
        if reference not in self.entries:
            raise UnknownId(f"The catalogue has no image {reference}", id=reference)
        return replace(self.entries[reference], status=EntryStatus.FORGOTTEN)

    async def protect(self, reference: str, *, who: Principal) -> str:
        self._note("protect", who)
        self.protected.add(reference)
        return reference

    async def unprotect(self, reference: str, *, who: Principal) -> str:
        self._note("unprotect", who)
        if reference not in self.protected:
            raise UnknownId(f"{reference} is not protected", id=reference)
        self.protected.remove(reference)
        return reference

    async def rescan(self, registry: str | None, *, wait: bool, who: Principal) -> str:
        self._note(f"rescan {registry or 'all'}{' waiting' if wait else ''}", who)
        return self.task_id

    def _note(self, deed: str, who: Principal) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((deed, who.name))


def catalogue_entry(reference: str) -> CatalogueEntry:
    """An image of two platforms, of which nobody has looked at one."""
    return CatalogueEntry(
        reference=reference,
        registry=reference.partition("/")[0],
        repository=reference.rpartition(":")[0],
        root_digest="sha256:" + "a" * 64,
        size=5 * 10**9,
        platforms=[
            {"os": "linux", "architecture": "amd64", "variant": "", "size": 5 * 10**9},
            {"os": "linux", "architecture": "arm64", "variant": "v8", "size": None},
        ],
        labels={"made.by": "test"},
        status=EntryStatus.KNOWN,
        seen_at=1.0,
        updated_at=1.0,
    )


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
    granted: dict[str, Grants] = field(default_factory=dict)
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

    async def grant(
        self, path: str, users: Sequence[str], groups: Sequence[str], *, who: Principal
    ) -> Grants:
        return await self._granted(path, set(users), set(groups), who)

    async def revoke(
        self, path: str, users: Sequence[str], groups: Sequence[str], *, who: Principal
    ) -> Grants:
        del users, groups
        return await self._granted(path, set(), set(), who)

    async def grants(self) -> Sequence[Grants]:
        return list(self.granted.values())

    async def _granted(
        self, path: str, users: set[str], groups: set[str], who: Principal
    ) -> Grants:
        assert who.is_superadmin
        if self.refusal is not None:
            raise self.refusal
        self.granted[path] = Grants(path, tuple(sorted(users)), tuple(sorted(groups)))
        return self.granted[path]


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
            view
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
    catalogue: ToldCatalogue
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
        catalogue=ToldCatalogue(),
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
        catalogue=(catalogue := ToldCatalogue()),
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
                catalogue,
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
