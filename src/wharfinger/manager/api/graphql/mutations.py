"""What can be done."""

from functools import partial

import strawberry

from wharfinger.domain.errors import Conflict, Forbidden
from wharfinger.manager.access import audit
from wharfinger.manager.access.audit import Action
from wharfinger.manager.access.principal import Role
from wharfinger.manager.api.graphql.context import Context, Info, owning
from wharfinger.manager.api.graphql.image_fields import ImageMutations
from wharfinger.manager.api.graphql.inputs import KernelSpec, limit_changes, session_request
from wharfinger.manager.api.graphql.people import JoinTokenCreated, Token, TokenCreated, User
from wharfinger.manager.api.graphql.results import (
    AddRegistryResult,
    AddUserResult,
    AgentChangeResult,
    CancelTaskResult,
    CreateJoinTokenResult,
    CreateSessionResult,
    CreateTokenResult,
    EndSessionResult,
    PreloadImageResult,
    RemoveRegistryResult,
    RemoveUserResult,
    RevokeTokenResult,
    SetUserLimitsResult,
    UnloadImageResult,
)
from wharfinger.manager.api.graphql.scalars import BigInt
from wharfinger.manager.api.graphql.sessions import Session
from wharfinger.manager.api.graphql.types import Agent, BackgroundTaskStarted, Registry, Task
from wharfinger.manager.sessions.views import SessionView


@strawberry.type
class Mutation(ImageMutations):
    """Who may do what stands in `wharfinger.manager.access.permissions`."""

    @strawberry.mutation
    async def preload_image(
        self, info: Info, target_agents: list[str], references: list[str]
    ) -> PreloadImageResult:
        """Bring images to agents. Answers once every reference is resolved."""
        context = info.context
        task_id = await context.services.images.preload(
            target_agents, references, who=context.principal
        )
        return BackgroundTaskStarted(task_id=strawberry.ID(task_id))

    @strawberry.mutation
    async def unload_image(
        self, info: Info, target_agents: list[str], references: list[str]
    ) -> UnloadImageResult:
        """Take images away from agents, where nothing uses them."""
        context = info.context
        task_id = await context.services.images.unload(
            target_agents, references, who=context.principal
        )
        return BackgroundTaskStarted(task_id=strawberry.ID(task_id))

    @strawberry.mutation
    async def cancel_task(self, info: Info, id: strawberry.ID) -> CancelTaskResult:  # noqa: A002
        """Ask for a task's end. It is cancelled once every part has stopped."""
        tasks = info.context.services.tasks
        task = await tasks.show(id)
        owning(info).require(task.owner_id, f"Task {id}")
        noting = partial(
            audit.note,
            who=info.context.principal,
            action=Action.TASK_CANCEL,
            target=id,
            name=task.name,
        )
        return Task.of(await tasks.cancel(id, by=info.context.by, noting=noting), whole=False)

    @strawberry.mutation
    async def create_session(
        self,
        info: Info,
        kernels: list[KernelSpec],
        name: str | None = None,
        scaling_group: str | None = None,
    ) -> CreateSessionResult:
        """Queue a session. It runs once its images are on its agents and your limits admit it."""
        context = info.context
        view = await context.services.sessions.create(
            session_request(kernels, name, scaling_group), owner=context.principal
        )
        return Session.of(view)

    @strawberry.mutation
    async def terminate_session(
        self,
        info: Info,
        id: strawberry.ID,  # noqa: A002
    ) -> EndSessionResult:
        """End a session, whatever its state."""
        sessions = info.context.services.sessions
        owning(info).require((await sessions.show(id)).owner_id, f"Session {id}")
        ended = await sessions.terminate(id, who=info.context.principal)
        return Session.of(ended)

    @strawberry.mutation
    async def cancel_session(
        self,
        info: Info,
        id: strawberry.ID,  # noqa: A002
        force: bool = False,
    ) -> EndSessionResult:
        """End a session of yours before it runs. A superadmin cancels others' with `force`."""
        sessions = info.context.services.sessions
        view = await sessions.show(id)
        owning(info).require(view.owner_id, f"Session {id}")
        _may_cancel(info.context, view, force=force)
        ended = await sessions.cancel(id, who=info.context.principal, forced=force)
        return Session.of(ended)

    @strawberry.mutation
    async def force_cancel_kernel(
        self,
        info: Info,
        id: strawberry.ID,  # noqa: A002
    ) -> EndSessionResult:
        """Cancel the session of a kernel that does not run yet: kernels end together."""
        sessions = info.context.services.sessions
        view = await sessions.of_kernel(id)
        ended = await sessions.cancel(view.id, who=info.context.principal, forced=True)
        return Session.of(ended)

    @strawberry.mutation
    async def cordon_agent(self, info: Info, id: strawberry.ID) -> AgentChangeResult:  # noqa: A002
        """Close an agent to new sessions."""
        fleet, who = info.context.services.fleet, info.context.principal
        return Agent.of(await fleet.cordon(id, who=who))

    @strawberry.mutation
    async def uncordon_agent(
        self,
        info: Info,
        id: strawberry.ID,  # noqa: A002
    ) -> AgentChangeResult:
        """Open an agent to new sessions."""
        fleet, who = info.context.services.fleet, info.context.principal
        return Agent.of(await fleet.uncordon(id, who=who))

    @strawberry.mutation
    async def remove_agent(self, info: Info, id: strawberry.ID) -> AgentChangeResult:  # noqa: A002
        """Retire an agent. Its process is refused from now on."""
        fleet, who = info.context.services.fleet, info.context.principal
        return Agent.of(await fleet.retire(id, who=who))

    @strawberry.mutation
    async def add_registry(
        self, info: Info, url: str, username: str | None = None, password: str | None = None
    ) -> AddRegistryResult:
        """Let images come from a registry. Its password is kept encrypted."""
        registries, who = info.context.services.registries, info.context.principal
        return Registry.of(await registries.add(url, username, password, who=who))

    @strawberry.mutation
    async def remove_registry(self, info: Info, host: str) -> RemoveRegistryResult:
        """Forget a registry and its password."""
        registries, who = info.context.services.registries, info.context.principal
        return Registry.of(await registries.remove(host, who=who))

    @strawberry.mutation
    async def create_join_token(self, info: Info, label: str) -> CreateJoinTokenResult:
        """A token that agents may join with."""
        access, who = info.context.services.access, info.context.principal
        issued = await access.create_join_token(label, who=who)
        return JoinTokenCreated(id=strawberry.ID(issued.id), token=issued.token)

    @strawberry.mutation
    async def add_user(self, info: Info, name: str, role: str = "user") -> AddUserResult:
        """Add a user, who has no token yet."""
        access, who = info.context.services.access, info.context.principal
        return User.of(await access.add_user(name, role, who=who))

    @strawberry.mutation
    async def remove_user(self, info: Info, name: str) -> RemoveUserResult:
        """Remove a user and their tokens. The last superadmin stays, and who has sessions."""
        access, who = info.context.services.access, info.context.principal
        return User.of(await access.remove_user(name, who=who))

    @strawberry.mutation
    async def set_user_limits(
        self,
        info: Info,
        name: str,
        max_sessions: int | None = strawberry.UNSET,
        cpu: float | None = strawberry.UNSET,
        mem: BigInt | None = strawberry.UNSET,
        gpu: int | None = strawberry.UNSET,
        scaling_groups: list[str] | None = strawberry.UNSET,
    ) -> SetUserLimitsResult:
        """Change what a user may occupy. Null is no limit; what is not given stays."""
        changes = limit_changes(
            max_sessions=max_sessions,
            cpu=cpu,
            mem=mem,
            gpu=gpu,
            scaling_groups=scaling_groups,
        )
        access, who = info.context.services.access, info.context.principal
        return User.of(await access.set_limits(name, changes, who=who))

    @strawberry.mutation
    async def create_token(self, info: Info, user: str, label: str) -> CreateTokenResult:
        """A token for yourself, or for anybody as a superadmin."""
        access = info.context.services.access
        # a name that does not exist is no more told to others than one that does
        owning(info).require(await access.user_id(user) or "", f"The account {user!r}")
        issued = await access.create_token(user, label, who=info.context.principal)
        return TokenCreated(id=strawberry.ID(issued.id), token=issued.token)

    @strawberry.mutation
    async def revoke_token(self, info: Info, id: strawberry.ID) -> RevokeTokenResult:  # noqa: A002
        """Make a token of yours worthless, or anybody's as a superadmin."""
        access = info.context.services.access
        owning(info).require((await access.token(id)).user_id, f"Token {id}")
        return Token.of(await access.revoke_token(id, who=info.context.principal))


def _may_cancel(context: Context, view: SessionView, *, force: bool) -> None:
    principal = context.principal
    if force and not principal.is_superadmin:
        raise Forbidden(
            "Only a superadmin may cancel with force",
            needs=Role.SUPERADMIN.value,
            role=principal.role,
        )
    if not force and view.owner_id != principal.user_id:
        raise Conflict(
            f"Session {view.id} is {view.owner}'s: cancel it with force", owner=view.owner
        )
