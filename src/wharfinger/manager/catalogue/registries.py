"""The registries that images may come from, what they are to be shown, and whom images are for."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog
from sqlalchemy import Connection, Row, delete, select

from wharfinger.domain.errors import InvalidRequest, UnknownRegistry
from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.domain.references import HUB
from wharfinger.manager.access import audit, grants
from wharfinger.manager.access.audit import Action
from wharfinger.manager.access.grants import Grants
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.catalogue.addresses import HUB_NAMES, read_address
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import registries
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.connection import RegistryConnection

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RegistryView:
    """A registry. Its password is nobody's to read."""

    host: str
    url: str
    username: str | None


_Found: TypeAlias = Row[tuple[str, str, str | None, str | None, float]]


class Registries:
    """Makes registries known, and says how to reach them."""

    def __init__(self, storage: Storage, vault: Vault, client: RegistryClient) -> None:
        self._storage = storage
        self._vault = vault
        self._client = client

    async def add(
        self, url: str, username: str | None, password: str | None, *, who: Principal
    ) -> RegistryView:
        """Make it known, or replace what is known of it, the password included.

        It is asked first, for a few seconds: credentials it refuses are refused (`auth`). One that
        does not answer, or not as a registry should, is taken all the same, since registries are
        made known before they are up; the log says so, and so does the first preload from it.
        Raises `InvalidRequest` for an address that is none.
        """
        host, url = read_address(url)
        _check_credentials(username, password)
        connection = RegistryConnection(host, url, username, password)
        try:
            await self._client.check(connection)
        except FailureError as error:
            if error.failure.failure_class is FailureClass.AUTH:
                raise
            log.warning("registry taken unchecked", registry=host, why=error.failure.to_json())
        encrypted = None if password is None else self._vault.encrypt(password)
        await self._storage.write(_put, connection, encrypted, who)
        return RegistryView(host, url, username)

    async def list(self) -> list[RegistryView]:
        """All, by host."""
        return await self._storage.read(_all)

    async def remove(self, host: str, *, who: Principal) -> RegistryView:
        """Forget it and its password; raises `UnknownRegistry`. Takes any spelling `add` takes.

        Whom its images are for stays: it is not open to everybody when it is made known again.
        """
        try:
            name = read_address(host)[0]
        except InvalidRequest:
            name = host  # no address: nothing is known by it
        return await self._storage.write(_remove, name, who)

    async def grant(
        self, path: str, users: Collection[str], groups: Collection[str], *, who: Principal
    ) -> Grants:
        """Let these use what is below a path (`host[:port]` or `host/name…`), which from then on is
        for those named alone; whom it is for after that.

        Raises `InvalidRequest`, `UnknownRegistry`, or `UnknownId` for a user.
        """
        return await self._storage.write(_grant, grants.read_path(path), users, groups, who)

    async def revoke(
        self, path: str, users: Collection[str], groups: Collection[str], *, who: Principal
    ) -> Grants:
        """Take it from these again; with nobody named, open the path to everybody.

        Raises `InvalidRequest`, `UnknownId` for what was not granted, and `Conflict` where naming
        the last would open the path.
        """
        return await self._storage.write(_revoke, grants.read_path(path), users, groups, who)

    async def grants(self) -> Sequence[Grants]:
        """Every path that is not for everybody, sorted."""
        return await self._storage.read(grants.all_grants)

    async def require(self, registry_host: str) -> None:
        """Raise `UnknownRegistry`, naming the known, unless it is known."""
        await self._storage.read(_find, registry_host)

    async def connection(self, registry_host: str) -> RegistryConnection:
        """How to reach the registry of a reference; raises `UnknownRegistry` naming the known."""
        row = await self._storage.read(_find, registry_host)
        encrypted = row.password_encrypted
        password = None if encrypted is None else self._vault.decrypt(encrypted)
        return RegistryConnection(row.host, row.url, row.username, password)


def _check_credentials(username: str | None, password: str | None) -> None:
    if not username and not password:
        return
    if not username or not password:
        raise InvalidRequest("a user name and a password are given together, or neither")
    if ":" in username or not username.isprintable():
        raise InvalidRequest("a user name has neither ':' nor invisible characters")


def _put(
    conn: Connection, connection: RegistryConnection, encrypted: str | None, who: Principal
) -> None:
    known = {
        "url": connection.url,
        "username": connection.username,
        "password_encrypted": encrypted,
    }
    put(conn, registries, {"host": connection.host}, known, created_at=now(conn))
    said = {"url": connection.url, "username": connection.username}
    audit.note(conn, who, Action.REGISTRY_ADD, connection.host, **said)


def _all(conn: Connection) -> list[RegistryView]:
    rows = conn.execute(select(registries).order_by(registries.c.host))
    return [RegistryView(row.host, row.url, row.username) for row in rows]


def _grant(
    conn: Connection, path: str, users: Collection[str], groups: Collection[str], who: Principal
) -> Grants:
    _find(conn, path.partition("/")[0])
    granted = grants.grant(conn, path, users, groups)
    said = {"users": list(users), "groups": list(groups)}
    audit.note(conn, who, Action.REGISTRY_GRANT, path, **said)
    return granted


def _revoke(
    conn: Connection, path: str, users: Collection[str], groups: Collection[str], who: Principal
) -> Grants:
    left = grants.revoke(conn, path, users, groups)
    said = {"users": list(users), "groups": list(groups)}
    audit.note(conn, who, Action.REGISTRY_REVOKE, path, **said)
    return left


def _remove(conn: Connection, host: str, who: Principal) -> RegistryView:
    row = _row(conn, host)
    if row is None:
        raise _unknown(conn, host)
    conn.execute(delete(registries).where(registries.c.host == host))
    audit.note(conn, who, Action.REGISTRY_REMOVE, host)
    return RegistryView(row.host, row.url, row.username)


def _find(conn: Connection, host: str) -> _Found:
    row = _row(conn, host)
    if row is None:
        raise _unknown(conn, host, f". {_advice(host)}")
    return row


def _row(conn: Connection, host: str) -> _Found | None:
    return conn.execute(select(registries).where(registries.c.host == host)).one_or_none()


def _unknown(conn: Connection, host: str, advice: str = "") -> UnknownRegistry:
    known = [view.host for view in _all(conn)]
    return UnknownRegistry(
        f"the registry {host} is not known here; known: {', '.join(known) or 'none'}{advice}",
        registry=host,
        known=known,
    )


def _advice(host: str) -> str:
    if host != HUB and host in HUB_NAMES:
        return f"The Docker Hub is {HUB} in references"
    return f"Make it known with `wharfinger registry add {host}`"
