"""Access as the interfaces use it: one call, one transaction."""

from wharfinger.manager.access import limits, tokens, users
from wharfinger.manager.access.limits import LimitChanges, Occupied
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.access.tokens import IssuedToken, TokenView
from wharfinger.manager.access.users import UserView
from wharfinger.manager.storage.port import Storage


class Access:
    """Users and their tokens, and the join tokens of agents."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def authenticate(self, bearer: str | None) -> Principal:
        """Whose token this is; raises `Unauthenticated`."""
        return await self._storage.read(tokens.authenticate, bearer)

    async def users(self) -> list[UserView]:
        """All users, by name."""
        return await self._storage.read(users.list_users)

    async def user_names(self) -> dict[str, str]:
        """The name of each user, by id."""
        return await self._storage.read(users.user_names)

    async def add_user(self, name: str, role: str) -> UserView:
        """A new user; raises `InvalidRequest` or `Conflict`."""
        return await self._storage.write(users.add_user, name, role)

    async def user_id(self, name: str) -> str | None:
        """The id of the user named so, if there is one."""
        return await self._storage.read(users.user_id, name)

    async def user(self, name: str) -> UserView:
        """One user; raises `UnknownId`."""
        return await self._storage.read(users.show_user, name)

    async def set_limits(self, name: str, changes: LimitChanges) -> UserView:
        """Change what a user may occupy; raises `UnknownId` or `InvalidRequest`."""
        return await self._storage.write(users.limit_user, name, changes)

    async def occupied(self) -> dict[str, Occupied]:
        """What users occupy, by id, of those who occupy anything."""
        return await self._storage.read(limits.occupied)

    async def remove_user(self, name: str) -> UserView:
        """Remove a user and their tokens; raises `UnknownId` or `Conflict`."""
        return await self._storage.write(users.remove_user, name)

    async def tokens(self, *, user_id: str | None) -> list[TokenView]:
        """The tokens of one user, or all for None."""
        return await self._storage.read(tokens.list_tokens, user_id=user_id)

    async def token(self, token_id: str) -> TokenView:
        """One token; raises `UnknownId`."""
        return await self._storage.read(tokens.show_token, token_id)

    async def create_token(self, user: str, label: str) -> IssuedToken:
        """A new token of the user named so; raises `UnknownId` or `InvalidRequest`."""
        return await self._storage.write(tokens.create_token, user, label)

    async def revoke_token(self, token_id: str) -> TokenView:
        """Make a token worthless; raises `UnknownId`."""
        return await self._storage.write(tokens.revoke_token, token_id)

    async def create_join_token(self, label: str) -> IssuedToken:
        """A new token that agents may join with."""
        return await self._storage.write(tokens.create_join_token, label)

    async def revoke_join_tokens(self, label: str) -> None:
        """Let no agent join with those of this label any more; who did join stays."""
        await self._storage.write(tokens.revoke_join_tokens, label)
