"""What resolvers are given with each request."""

from dataclasses import dataclass, field
from typing import TypeAlias

import strawberry

from wharfinger.manager.access.limits import Occupied
from wharfinger.manager.access.permissions import Ownership
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.api.services import Services


@dataclass(slots=True)
class Context:
    """One request. `by` is how the transition log names its user."""

    services: Services
    principal: Principal
    request_id: str
    ownership: dict[str, Ownership] = field(default_factory=dict)
    names: dict[str, str] | None = None
    use: dict[str, Occupied] | None = None

    @property
    def by(self) -> str:
        """How the transition log names the user."""
        return f"user {self.principal.name}"

    async def owner_name(self, user_id: str) -> str:
        """The user's name, or the id of one who is gone. Names are read once per request."""
        return (await self._names()).get(user_id, user_id)

    async def actor(self, by: str) -> str:
        """Who the transition log means: `user NAME` where it has a user's id."""
        name = (await self._names()).get(by)
        return by if name is None else f"user {name}"

    async def occupied(self, user_id: str) -> Occupied:
        """What a user occupies. It is read once per request."""
        if self.use is None:
            self.use = await self.services.access.occupied()
        return self.use.get(user_id, Occupied())

    async def _names(self) -> dict[str, str]:
        if self.names is None:
            self.names = await self.services.access.user_names()
        return self.names


Info: TypeAlias = strawberry.Info[Context, None]


def owning(info: Info) -> Ownership:
    """What the user owns, asked by this root field."""
    return info.context.ownership[str(info.path.key)]
