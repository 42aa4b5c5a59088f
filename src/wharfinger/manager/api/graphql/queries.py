"""What can be asked."""

from typing import Annotated

import strawberry

from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.states import KernelStatus, S, TaskStatus
from wharfinger.manager.api.graphql.connections import Connection, key_of, page, page_size
from wharfinger.manager.api.graphql.context import Info, owning
from wharfinger.manager.api.graphql.image_fields import ImageQueries
from wharfinger.manager.api.graphql.people import Token, User, Viewer
from wharfinger.manager.api.graphql.results import AgentResult, SessionResult, TaskResult
from wharfinger.manager.api.graphql.sessions import Session
from wharfinger.manager.api.graphql.types import Agent, Image, Registry, Task


@strawberry.type
class Query(ImageQueries):
    """Who may ask what stands in `wharfinger.manager.access.permissions`."""

    @strawberry.field
    async def viewer(self, info: Info) -> Viewer:
        """The user whose token this is."""
        return Viewer.of(info.context.principal)

    @strawberry.field
    async def agents(self, info: Info) -> list[Agent]:
        """All agents but the retired."""
        return [Agent.of(view) for view in await info.context.services.fleet.agents()]

    @strawberry.field
    async def agent(self, info: Info, id: strawberry.ID) -> AgentResult:  # noqa: A002
        """One agent."""
        return Agent.of(await info.context.services.fleet.agent(id))

    @strawberry.field
    async def images(
        self,
        info: Info,
        first: int = 100,
        after: str | None = None,
        reference: Annotated[
            str | None, strawberry.argument(description="A part of the reference")
        ] = None,
        agent_id: strawberry.ID | None = None,
        registry: str | None = None,
        statuses: list[str] | None = None,
    ) -> Connection[Image]:
        """What is where, by reference: those you may use."""
        size = page_size(first)
        views = await info.context.services.images.list(
            who=info.context.principal,
            reference=reference,
            registry=registry,
            statuses=statuses or (),
            agent_id=agent_id,
            after=key_of(after),
            limit=size + 1,
        )
        return page(views, size, Image.of, lambda view: view.key)

    @strawberry.field
    async def tasks(
        self,
        info: Info,
        first: int = 50,
        after: str | None = None,
        status: list[str] | None = None,
    ) -> Connection[Task]:
        """Background tasks, newest first: your own, or all for a superadmin."""
        size = page_size(first)
        views = await info.context.services.tasks.list(
            owner_id=owning(info).only(),
            statuses=[_status(word, TaskStatus, "task") for word in status or ()],
            after=key_of(after),
            limit=size + 1,
        )
        return page(views, size, lambda view: Task.of(view, whole=False), lambda view: view.id)

    @strawberry.field
    async def task(self, info: Info, id: strawberry.ID) -> TaskResult:  # noqa: A002
        """One background task."""
        view = await info.context.services.tasks.show(id)
        owning(info).require(view.owner_id, f"Task {id}")
        return Task.of(view, whole=True)

    @strawberry.field
    async def sessions(
        self,
        info: Info,
        first: int = 50,
        after: str | None = None,
        status: list[str] | None = None,
    ) -> Connection[Session]:
        """Sessions, newest first: your own, or all for a superadmin."""
        size = page_size(first)
        views = await info.context.services.sessions.list(
            owner_id=owning(info).only(),
            statuses=[_status(word, KernelStatus, "session") for word in status or ()],
            after=key_of(after),
            limit=size + 1,
        )
        return page(views, size, Session.of, lambda view: view.id)

    @strawberry.field
    async def session(self, info: Info, id: strawberry.ID) -> SessionResult:  # noqa: A002
        """One session."""
        view = await info.context.services.sessions.show(id)
        owning(info).require(view.owner_id, f"Session {id}")
        return Session.of(view)

    @strawberry.field
    async def registries(self, info: Info) -> list[Registry]:
        """The registries that images may come from."""
        return [Registry.of(view) for view in await info.context.services.registries.list()]

    @strawberry.field
    async def users(self, info: Info) -> list[User]:
        """All users."""
        return [User.of(view) for view in await info.context.services.access.users()]

    @strawberry.field
    async def tokens(self, info: Info) -> list[Token]:
        """Tokens: your own, or all for a superadmin."""
        views = await info.context.services.access.tokens(user_id=owning(info).only())
        return [Token.of(view) for view in views]


def _status(word: str, statuses: type[S], thing: str) -> S:
    if word not in list(statuses):
        known = ", ".join(statuses)
        raise InvalidRequest(f"A {thing}'s status is one of {known}, not {word[:64]!r}")
    return statuses(word)
