"""What can be done."""

import strawberry

from wharfinger.manager.api.graphql.context import Info, owning
from wharfinger.manager.api.graphql.results import (
    AddRegistryResult,
    AddUserResult,
    AgentChangeResult,
    CancelTaskResult,
    CreateJoinTokenResult,
    CreateTokenResult,
    PreloadImageResult,
    RemoveRegistryResult,
    RemoveUserResult,
    RevokeTokenResult,
    UnloadImageResult,
)
from wharfinger.manager.api.graphql.types import (
    Agent,
    BackgroundTaskStarted,
    JoinTokenCreated,
    Registry,
    Task,
    Token,
    TokenCreated,
    User,
)


@strawberry.type
class Mutation:
    """Who may do what stands in `wharfinger.manager.access.permissions`."""

    @strawberry.mutation
    async def preload_image(
        self, info: Info, target_agents: list[str], references: list[str]
    ) -> PreloadImageResult:
        """Bring images to agents. Answers once every reference is resolved."""
        context = info.context
        task_id = await context.services.images.preload(
            target_agents, references, owner_id=context.principal.user_id
        )
        return BackgroundTaskStarted(task_id=strawberry.ID(task_id))

    @strawberry.mutation
    async def unload_image(
        self, info: Info, target_agents: list[str], references: list[str]
    ) -> UnloadImageResult:
        """Take images away from agents, where nothing uses them."""
        context = info.context
        task_id = await context.services.images.unload(
            target_agents, references, owner_id=context.principal.user_id
        )
        return BackgroundTaskStarted(task_id=strawberry.ID(task_id))

    @strawberry.mutation
    async def cancel_task(self, info: Info, id: strawberry.ID) -> CancelTaskResult:  # noqa: A002
        """Ask for a task's end. It is cancelled once every part has stopped."""
        tasks = info.context.services.tasks
        owning(info).require((await tasks.show(id)).owner_id, f"Task {id}")
        return Task.of(await tasks.cancel(id, by=info.context.by), whole=False)

    @strawberry.mutation
    async def cordon_agent(self, info: Info, id: strawberry.ID) -> AgentChangeResult:  # noqa: A002
        """Close an agent to new sessions."""
        return Agent.of(await info.context.services.fleet.cordon(id, by=info.context.by))

    @strawberry.mutation
    async def uncordon_agent(
        self,
        info: Info,
        id: strawberry.ID,  # noqa: A002
    ) -> AgentChangeResult:
        """Open an agent to new sessions."""
        return Agent.of(await info.context.services.fleet.uncordon(id, by=info.context.by))

    @strawberry.mutation
    async def remove_agent(self, info: Info, id: strawberry.ID) -> AgentChangeResult:  # noqa: A002
        """Retire an agent. Its process is refused from now on."""
        return Agent.of(await info.context.services.fleet.retire(id, by=info.context.by))

    @strawberry.mutation
    async def add_registry(
        self, info: Info, url: str, username: str | None = None, password: str | None = None
    ) -> AddRegistryResult:
        """Let images come from a registry. Its password is kept encrypted."""
        return Registry.of(await info.context.services.registries.add(url, username, password))

    @strawberry.mutation
    async def remove_registry(self, info: Info, host: str) -> RemoveRegistryResult:
        """Forget a registry and its password."""
        return Registry.of(await info.context.services.registries.remove(host))

    @strawberry.mutation
    async def create_join_token(self, info: Info, label: str) -> CreateJoinTokenResult:
        """A token that agents may join with."""
        issued = await info.context.services.access.create_join_token(label)
        return JoinTokenCreated(id=strawberry.ID(issued.id), token=issued.token)

    @strawberry.mutation
    async def add_user(self, info: Info, name: str, role: str = "user") -> AddUserResult:
        """Add a user, who has no token yet."""
        return User.of(await info.context.services.access.add_user(name, role))

    @strawberry.mutation
    async def remove_user(self, info: Info, name: str) -> RemoveUserResult:
        """Remove a user and their tokens. The last superadmin stays."""
        return User.of(await info.context.services.access.remove_user(name))

    @strawberry.mutation
    async def create_token(self, info: Info, user: str, label: str) -> CreateTokenResult:
        """A token for yourself, or for anybody as a superadmin."""
        access = info.context.services.access
        # a name that does not exist is no more told to others than one that does
        owning(info).require(await access.user_id(user) or "", f"The account {user!r}")
        issued = await access.create_token(user, label)
        return TokenCreated(id=strawberry.ID(issued.id), token=issued.token)

    @strawberry.mutation
    async def revoke_token(self, info: Info, id: strawberry.ID) -> RevokeTokenResult:  # noqa: A002
        """Make a token of yours worthless, or anybody's as a superadmin."""
        access = info.context.services.access
        owning(info).require((await access.token(id)).user_id, f"Token {id}")
        return Token.of(await access.revoke_token(id))
