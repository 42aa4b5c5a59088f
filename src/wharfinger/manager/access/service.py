"""Access as the interfaces use it: one call, one transaction."""

from collections.abc import Collection

from sqlalchemy import Connection

from wharfinger.manager.access import groups, limits, tokens, users
from wharfinger.manager.access.audit import Action, AuditEntry, note, page
from wharfinger.manager.access.limits import LimitChanges, Occupied
from wharfinger.manager.access.principal import SYSTEM, Principal
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

    async def add_user(self, name: str, role: str, *, who: Principal = SYSTEM) -> UserView:
        """A new user; raises `InvalidRequest` or `Conflict`."""

        def add(conn: Connection) -> UserView:
            user = users.add_user(conn, name, role)
            note(conn, who, Action.USER_ADD, name, role=role)
            return user

        return await self._storage.write(add)

    async def user_id(self, name: str) -> str | None:
        """The id of the user named so, if there is one."""
        return await self._storage.read(users.user_id, name)

    async def user(self, name: str) -> UserView:
        """One user; raises `UnknownId`."""
        return await self._storage.read(users.show_user, name)

    async def set_limits(
        self, name: str, changes: LimitChanges, *, who: Principal = SYSTEM
    ) -> UserView:
        """Change what a user may occupy; raises `UnknownId` or `InvalidRequest`."""

        def limit(conn: Connection) -> UserView:
            user = users.limit_user(conn, name, changes)
            if columns := changes.columns():
                note(conn, who, Action.USER_LIMIT, name, **columns)
            return user

        return await self._storage.write(limit)

    async def change_groups(
        self,
        name: str,
        add: Collection[str],
        remove: Collection[str],
        *,
        who: Principal = SYSTEM,
    ) -> UserView:
        """Put a user into groups and take them out of others; raises `UnknownId` or
        `InvalidRequest`."""

        def change(conn: Connection) -> UserView:
            groups.change(conn, name, add, remove)
            note(conn, who, Action.USER_GROUPS, name, added=sorted(add), removed=sorted(remove))
            return users.show_user(conn, name)

        return await self._storage.write(change)

    async def occupied(self) -> dict[str, Occupied]:
        """What users occupy, by id, of those who occupy anything."""
        return await self._storage.read(limits.occupied)

    async def remove_user(self, name: str, *, who: Principal = SYSTEM) -> UserView:
        """Remove a user and their tokens; raises `UnknownId` or `Conflict`."""

        def remove(conn: Connection) -> UserView:
            user = users.remove_user(conn, name)
            note(conn, who, Action.USER_REMOVE, name)
            return user

        return await self._storage.write(remove)

    async def tokens(self, *, user_id: str | None) -> list[TokenView]:
        """The tokens of one user, or all for None."""
        return await self._storage.read(tokens.list_tokens, user_id=user_id)

    async def token(self, token_id: str) -> TokenView:
        """One token; raises `UnknownId`."""
        return await self._storage.read(tokens.show_token, token_id)

    async def create_token(self, user: str, label: str, *, who: Principal = SYSTEM) -> IssuedToken:
        """A new token of the user named so; raises `UnknownId` or `InvalidRequest`."""

        def create(conn: Connection) -> IssuedToken:
            issued = tokens.create_token(conn, user, label)
            note(conn, who, Action.TOKEN_CREATE, issued.id, user=user, label=label)
            return issued

        return await self._storage.write(create)

    async def revoke_token(self, token_id: str, *, who: Principal = SYSTEM) -> TokenView:
        """Make a token worthless; raises `UnknownId`."""

        def revoke(conn: Connection) -> TokenView:
            token = tokens.revoke_token(conn, token_id)
            note(conn, who, Action.TOKEN_REVOKE, token_id, user=token.user, label=token.label)
            return token

        return await self._storage.write(revoke)

    async def create_join_token(self, label: str, *, who: Principal = SYSTEM) -> IssuedToken:
        """A new token that agents may join with."""

        def create(conn: Connection) -> IssuedToken:
            issued = tokens.create_join_token(conn, label)
            note(conn, who, Action.JOIN_TOKEN_CREATE, issued.id, label=label)
            return issued

        return await self._storage.write(create)

    async def audit(
        self,
        *,
        actor: str | None,
        action: str | None,
        target: str | None,
        after: int | None,
        limit: int,
    ) -> list[AuditEntry]:
        """Who did what, newest first: see `access.audit.page`."""
        return await self._storage.read(
            page, actor=actor, action=action, target=target, after=after, limit=limit
        )

    async def revoke_join_tokens(self, label: str) -> None:
        """Let no agent join with those of this label any more; who did join stays."""
        await self._storage.write(tokens.revoke_join_tokens, label)
