"""Users, what they may occupy, and their tokens."""

from datetime import datetime
from typing import Self

import strawberry

from wharfinger.manager.access.limits import Limits, Occupied
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.access.tokens import TokenView
from wharfinger.manager.access.users import UserView
from wharfinger.manager.api.graphql.context import Info
from wharfinger.manager.api.graphql.scalars import BigInt, big, moment


@strawberry.type(description="What somebody may occupy at most; null is no limit")
class UserLimits:
    """`cpu` is processors, `mem` bytes."""

    sessions: int | None
    cpu: float | None
    mem: BigInt | None
    gpu: int | None

    @classmethod
    def of(cls, limits: Limits) -> Self:
        """From the limits."""
        slots = limits.slots
        return cls(
            sessions=limits.sessions,
            cpu=None if slots.cpu is None else slots.cpu / 1000,
            mem=None if slots.mem is None else big(slots.mem),
            gpu=slots.gpu,
        )


@strawberry.type(description="What somebody's sessions occupy now")
class UserOccupied:
    """As the limits count it: a kernel whose image is being pulled costs no slots."""

    sessions: int
    cpu: float
    mem: BigInt
    gpu: int

    @classmethod
    def of(cls, occupied: Occupied) -> Self:
        """From what is occupied."""
        slots = occupied.slots
        return cls(
            sessions=occupied.sessions, cpu=slots.cpu / 1000, mem=big(slots.mem), gpu=slots.gpu
        )


@strawberry.type(description="Who you are")
class Viewer:
    """The user whose token came with the request. The rest is read when asked for."""

    id: strawberry.ID
    name: str
    role: str

    @classmethod
    def of(cls, principal: Principal) -> Self:
        """From the principal."""
        return cls(
            id=strawberry.ID(principal.user_id), name=principal.name, role=principal.role.value
        )

    @strawberry.field
    async def limits(self, info: Info) -> UserLimits:
        """What you may occupy at most."""
        return UserLimits.of((await info.context.services.access.user(self.name)).limits)

    @strawberry.field
    async def scaling_groups(self, info: Info) -> list[str] | None:
        """The scaling groups you may use; null is all."""
        limits = (await info.context.services.access.user(self.name)).limits
        return None if limits.scaling_groups is None else list(limits.scaling_groups)

    @strawberry.field
    async def occupied(self, info: Info) -> UserOccupied:
        """What you occupy now."""
        return UserOccupied.of(await info.context.occupied(self.id))


@strawberry.type(description="Somebody who may have tokens and sessions")
class User:
    """A user. `scalingGroups` are those they may use; null is all. `groups` are those of users,
    which images may be limited to."""

    id: strawberry.ID
    name: str
    role: str
    created_at: datetime
    limits: UserLimits
    scaling_groups: list[str] | None
    groups: list[str]

    @classmethod
    def of(cls, view: UserView) -> Self:
        """From the view."""
        groups = view.limits.scaling_groups
        return cls(
            id=strawberry.ID(view.id),
            name=view.name,
            role=view.role.value,
            created_at=moment(view.created_at),
            limits=UserLimits.of(view.limits),
            scaling_groups=None if groups is None else list(groups),
            groups=list(view.groups),
        )

    @strawberry.field
    async def occupied(self, info: Info) -> UserOccupied:
        """What their sessions occupy now."""
        return UserOccupied.of(await info.context.occupied(self.id))


@strawberry.type(description="A user's token, without its secret")
class Token:
    """`user` is the user's name."""

    id: strawberry.ID
    user: str
    label: str
    created_at: datetime

    @classmethod
    def of(cls, view: TokenView) -> Self:
        """From the view."""
        return cls(
            id=strawberry.ID(view.id),
            user=view.user,
            label=view.label,
            created_at=moment(view.created_at),
        )


@strawberry.type(description="A new token of a user; it is not shown again")
class TokenCreated:
    """`token` is the secret."""

    id: strawberry.ID
    token: str


@strawberry.type(description="A new token that agents may join with; it is not shown again")
class JoinTokenCreated:
    """`token` is the secret."""

    id: strawberry.ID
    token: str
