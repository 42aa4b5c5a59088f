"""The catalogue as the interfaces use it. Every deed is entered into the audit log with itself."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, delete, select

from wharfinger.domain.errors import InvalidRequest, RescanBlocked, UnknownId
from wharfinger.domain.references import Reference
from wharfinger.manager.access import audit
from wharfinger.manager.access.audit import Action
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.background.port import Outstanding
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.catalogue import entries, resolved
from wharfinger.manager.catalogue.addresses import read_address
from wharfinger.manager.catalogue.entries import CatalogueEntry
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.rescan import RESCAN, Rescan
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import protected_images
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.images import ResolvedImage

EVERY_REGISTRY: Final = "*"
"""What the audit log says a rescan of all registries was done to."""


class Catalogue:
    """Which references users may ask for, and which images stay where they are."""

    def __init__(
        self,
        storage: Storage,
        tasks: BackgroundTasks,
        registries: Registries,
        client: RegistryClient,
        rescan: Rescan,
    ) -> None:
        self._storage = storage
        self._tasks = tasks
        self._registries = registries
        self._client = client
        tasks.register(RESCAN, rescan, _no_items, category=RESCAN)

    async def register(self, reference: str, *, who: Principal) -> CatalogueEntry:
        """Make it known, meaning what its registry says now; one that was forgotten is known again.

        Raises `InvalidReference`, `UnknownRegistry`, or `FailureError` with the class the
        registry's answer has.
        """
        wanted = Reference.parse(reference)
        connection = await self._registries.connection(wanted.registry)
        image = await self._client.resolve(wanted, connection)
        return await self._storage.write(_register, image, who)

    async def forget(self, reference: str, *, who: Principal) -> CatalogueEntry:
        """Let no user ask for it any more, until it is registered or preloaded again; what runs
        goes on. Raises `InvalidReference`, and `UnknownId` naming what is near."""
        return await self._storage.write(_forget, Reference.parse(reference), who)

    async def protect(self, reference: str, *, who: Principal) -> str:
        """Let no unload take it from a host, known or not; its canonical spelling. Twice is fine.

        Raises `InvalidReference`.
        """
        return await self._storage.write(_protect, str(Reference.parse(reference)), who)

    async def unprotect(self, reference: str, *, who: Principal) -> str:
        """Let unloads take it again; its canonical spelling. Raises `InvalidReference`, and
        `UnknownId` when it was not protected."""
        return await self._storage.write(_unprotect, str(Reference.parse(reference)), who)

    async def rescan(self, registry: str | None, *, wait: bool, who: Principal) -> str:
        """Start to read what a registry (None: every one) has into the catalogue; the task's id.

        Raises `UnknownRegistry`, and `RescanBlocked` with `taskIds` while images are being
        downloaded, unless it may `wait` for those.
        """
        host = None if registry is None else _host(registry)
        if host is not None:
            await self._registries.require(host)
        task_id = await self._storage.write(_insert_rescan, self._tasks, host, who, wait=wait)
        await self._tasks.launch(task_id)
        return task_id


def _no_items(_conn: Connection, _task_id: str, /) -> Sequence[Mapping[str, Any]]:
    return ()


def _host(registry: str) -> str:
    try:
        return read_address(registry)[0]
    except InvalidRequest:
        return registry  # no address: nothing is known by it


def _register(conn: Connection, image: ResolvedImage, who: Principal) -> CatalogueEntry:
    entry = entries.register(conn, image)
    resolved.keep(conn, image)
    audit.note(conn, who, Action.IMAGE_REGISTER, entry.reference, rootDigest=entry.root_digest)
    return entry


def _forget(conn: Connection, reference: Reference, who: Principal) -> CatalogueEntry:
    entry = entries.forget(conn, reference)
    audit.note(conn, who, Action.IMAGE_FORGET, entry.reference)
    return entry


def _protect(conn: Connection, reference: str, who: Principal) -> str:
    by = {"by": f"user {who.name}", "at": now(conn)}
    put(conn, protected_images, {"reference": reference}, {}, **by)
    audit.note(conn, who, Action.IMAGE_PROTECT, reference)
    return reference


def _unprotect(conn: Connection, reference: str, who: Principal) -> str:
    found = protected_images.c.reference == reference
    if conn.execute(select(protected_images).where(found)).one_or_none() is None:
        raise UnknownId(f"{reference} is not protected", id=reference)
    conn.execute(delete(protected_images).where(found))
    audit.note(conn, who, Action.IMAGE_UNPROTECT, reference)
    return reference


def _insert_rescan(
    conn: Connection, tasks: BackgroundTasks, host: str | None, who: Principal, *, wait: bool
) -> str:
    try:
        task_id = tasks.insert_named(
            conn,
            name=RESCAN,
            function=RESCAN,
            arguments={"registry": host},
            owner_id=who.user_id,
            unit="images",
            at_once=not wait,
        )
    except Outstanding as error:
        ids = list(error.task_ids)
        raise RescanBlocked(
            f"images are being downloaded by {', '.join(ids)}: wait for those, or let the rescan"
            " wait",
            taskIds=ids,
        ) from error
    audit.note(conn, who, Action.IMAGE_RESCAN, host or EVERY_REGISTRY, taskId=task_id)
    return task_id
