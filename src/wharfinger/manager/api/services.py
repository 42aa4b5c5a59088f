"""What the interfaces call. Small protocols: the parts behind them know nothing of HTTP."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from wharfinger.contracts.ingest import (
    Acknowledgement,
    Registered,
    Registration,
    Report,
)
from wharfinger.domain.states import KernelStatus, TaskStatus
from wharfinger.manager.access.grants import Grants
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.access.service import Access
from wharfinger.manager.background.port import TaskView
from wharfinger.manager.background.store import Noting
from wharfinger.manager.catalogue.entries import CatalogueEntry
from wharfinger.manager.fleet.views import AgentImageView, AgentView
from wharfinger.manager.images.listing import ImageView
from wharfinger.manager.images.plans import PreloadPlan, UnloadPlan
from wharfinger.manager.sessions.requests import SessionRequest
from wharfinger.manager.sessions.views import SessionView
from wharfinger.manager.storage.port import Storage


class TransitionView(Protocol):
    """One row of the transition log."""

    @property
    def source(self) -> str | None:
        """None for a thing's first state."""

    @property
    def target(self) -> str:
        """The state after it."""

    @property
    def at(self) -> float:
        """When, in seconds since the epoch."""

    @property
    def reason(self) -> str:
        """Why."""

    @property
    def by(self) -> str:
        """Who did it."""


class Fleet(Protocol):
    """Agents. Methods about one raise `UnknownId`."""

    async def agents(self) -> Sequence[AgentView]:
        """All but the retired, by id."""

    async def agent(self, agent_id: str) -> AgentView:
        """One agent."""

    async def agent_images(self, agent_id: str, *, who: Principal) -> Sequence[AgentImageView]:
        """What its engine holds, of what this user may use."""

    async def transitions(self, agent_id: str) -> Sequence[TransitionView]:
        """Its states so far, oldest first."""

    async def cordon(self, agent_id: str, *, who: Principal) -> AgentView:
        """Close it to new sessions."""

    async def uncordon(self, agent_id: str, *, who: Principal) -> AgentView:
        """Open it to new sessions."""

    async def retire(self, agent_id: str, *, who: Principal) -> AgentView:
        """Remove it."""

    async def register(self, said: Registration, bearer: str, /) -> Registered:
        """Raises `Unauthenticated` unless the bearer may register this agent."""

    async def report(self, said: Report, bearer: str, /) -> Acknowledgement:
        """Raises `Unauthenticated`, or `StaleIncarnation` when a newer process registered."""


class Images(Protocol):
    """Preload, unload, and what is where."""

    async def preload(
        self, targets: Sequence[str], references: Sequence[str], *, who: Principal
    ) -> str:
        """Start to bring images to agents; the id of the task. Refuses by the tree of errors."""

    async def unload(
        self, targets: Sequence[str], references: Sequence[str], *, who: Principal
    ) -> str:
        """Start to take images away; the id of the task. Refuses by the tree of errors."""

    async def preload_plan(
        self, targets: Sequence[str], references: Sequence[str]
    ) -> Sequence[PreloadPlan]:
        """What `preload` would do, agent by agent. Refuses as it does; changes nothing."""

    async def unload_plan(
        self, targets: Sequence[str], references: Sequence[str]
    ) -> Sequence[UnloadPlan]:
        """What `unload` would do, agent by agent. Refuses as it does; changes nothing."""

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
        """What is where, of what this user may use, sorted by `key`; `after` is the key of the last
        one seen. Raises `InvalidRequest` for a status that is none."""


class Catalogue(Protocol):
    """The references users may ask for. All take canonical or short spellings, raise
    `InvalidReference`, and enter the deed into the audit log."""

    async def register(self, reference: str, *, who: Principal) -> CatalogueEntry:
        """Make it known, meaning what its registry says now. Refuses by the tree of errors."""

    async def forget(self, reference: str, *, who: Principal) -> CatalogueEntry:
        """Take it out; raises `UnknownId`."""

    async def protect(self, reference: str, *, who: Principal) -> str:
        """Keep it from being unloaded; the canonical reference."""

    async def unprotect(self, reference: str, *, who: Principal) -> str:
        """Let it be unloaded again; raises `UnknownId` when it was not protected."""

    async def rescan(self, registry: str | None, *, wait: bool, who: Principal) -> str:
        """Start to read registries' catalogues; the id of the task. Raises `UnknownRegistry`, and
        `RescanBlocked` when it would have to wait and may not."""


class StreamEvent(Protocol):
    """What a watcher gets: one Server-Sent Event."""

    @property
    def id(self) -> str:
        """What a watcher that comes back says it has seen."""

    @property
    def kind(self) -> str:
        """The event's name."""

    @property
    def data(self) -> Mapping[str, Any]:
        """JSON-ready."""

    @property
    def last(self) -> bool:
        """Whether the stream ends with it."""


class Tasks(Protocol):
    """Background tasks. Methods about one raise `UnknownId`."""

    async def list(
        self,
        *,
        owner_id: str | None,
        statuses: Collection[TaskStatus],
        after: str | None,
        limit: int,
    ) -> Sequence[TaskView]:
        """Newest first; `after` is the id of the last one seen."""

    async def show(self, task_id: str) -> TaskView:
        """One task with its items."""

    async def transitions(self, task_id: str) -> Sequence[TransitionView]:
        """Its states so far, oldest first."""

    async def cancel(self, task_id: str, *, by: str, noting: Noting | None = None) -> TaskView:
        """Ask for its end, with `noting` in the same transaction; raises `Conflict` when it has
        ended otherwise."""

    def watch(
        self, task_id: str, *, last_event_id: str | None
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Raises `UnknownId` when entered."""


class LogStream(Protocol):
    """The output of a container, in pieces."""

    @property
    def truncated(self) -> bool:
        """Whether its beginning is known to be lost."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces."""

    async def __anext__(self) -> bytes:
        """The next piece."""


class Sessions(Protocol):
    """Sessions. Methods about one raise `UnknownId`."""

    async def create(self, request: SessionRequest, *, owner: Principal) -> SessionView:
        """Queue a session. Refuses by the tree of errors; nothing is half made."""

    async def list(
        self,
        *,
        owner_id: str | None,
        statuses: Collection[KernelStatus],
        after: str | None,
        limit: int,
    ) -> Sequence[SessionView]:
        """Newest first; `after` is the id of the last one seen."""

    async def show(self, session_id: str) -> SessionView:
        """One session."""

    async def of_kernel(self, kernel_id: str) -> SessionView:
        """The session this kernel belongs to."""

    async def terminate(self, session_id: str, *, who: Principal) -> SessionView:
        """End it, whatever its state; one that has ended is answered as it is."""

    async def cancel(self, session_id: str, *, who: Principal, forced: bool) -> SessionView:
        """End it before it runs; raises `Conflict` when it runs or has ended."""

    def watch(
        self, session_id: str, *, last_event_id: str | None
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """`session_updated` with what is, then what is new, then `session_ended`.

        Raises `UnknownId` when entered.
        """

    def log(
        self, session_id: str, kernel_id: str | None, *, follow: bool, tail_bytes: int
    ) -> AbstractAsyncContextManager[LogStream]:
        """The output of a kernel (None: the main one) in pieces; with `follow` until it ends.

        Entering raises `UnknownId`, `Conflict` when it has no container (yet: with `follow` that
        is waited for), and `AgentUnreachable`, which comes from the pieces as well.
        """


class RegistryView(Protocol):
    """A registry. Its password is nobody's to read."""

    @property
    def host(self) -> str:
        """`host[:port]`, as references name it."""

    @property
    def url(self) -> str:
        """Where it is asked."""

    @property
    def username(self) -> str | None:
        """Who we are there, if anybody."""


class Registries(Protocol):
    """The registries known here."""

    async def add(
        self, url: str, username: str | None, password: str | None, *, who: Principal
    ) -> RegistryView:
        """Make it known, or change what is known of it."""

    async def list(self) -> Sequence[RegistryView]:
        """All, by host."""

    async def remove(self, host: str, *, who: Principal) -> RegistryView:
        """Forget it; raises `UnknownRegistry`."""

    async def grant(
        self, path: str, users: Sequence[str], groups: Sequence[str], *, who: Principal
    ) -> Grants:
        """Limit the images below a path to these, beside whom it is for already."""

    async def revoke(
        self, path: str, users: Sequence[str], groups: Sequence[str], *, who: Principal
    ) -> Grants:
        """Take a path from these; with nobody named it is open to all again."""

    async def grants(self) -> Sequence[Grants]:
        """Whom every limited path is for."""


class RunningLoop(Protocol):
    """A loop of the manager, as readiness looks at it."""

    @property
    def name(self) -> str:
        """What it is called in logs."""

    @property
    def running(self) -> bool:
        """Whether it was started and goes on."""


@dataclass(frozen=True, slots=True)
class Services:
    """All the API is built on. `drain` is set when the server is about to stop."""

    storage: Storage
    access: Access
    fleet: Fleet
    images: Images
    tasks: Tasks
    registries: Registries
    sessions: Sessions
    catalogue: Catalogue
    loops: Sequence[RunningLoop] = ()
    drain: asyncio.Event = field(default_factory=asyncio.Event)
