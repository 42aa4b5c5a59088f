"""Asking registries what the references of waiting kernels mean.

One reference is asked for once, however many kernels wait for it, and a registry that does not
answer holds up only its own references. Nothing is remembered that the rows do not know.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, exists, select, update

from wharfinger.domain.errors import UnknownRegistry
from wharfinger.domain.failures import Failure, FailureClass, FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.domain.retries import Again, after_failure
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.access.principal import Role
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.catalogue import entries, resolved
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.vault import VaultError
from wharfinger.manager.errands import Errands, beside_a_loop
from wharfinger.manager.fleet import agents
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions import endings, kernels
from wharfinger.manager.sessions.channels import ring
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.moments import moment
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.images import ResolvedImage

_AT_ONCE: Final = 4
"""References asked for at one registry."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A reference as kernels ask for it; `root_digest` is theirs where they have one, and `pinned`
    what the registry is asked for."""

    reference: str
    root_digest: str | None
    pinned: Reference

    @property
    def key(self) -> str:
        """What makes it one thing to ask for."""
        return f"{self.reference} {self.root_digest or ''}"


class Resolve:
    """The loop that resolves references. Start and stop it by its own `start` and `stop`."""

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        registries: Registries,
        client: RegistryClient,
        *,
        by: str,
        period: float = 1.0,
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._registries = registries
        self._client = client
        self._by = by
        self._errands = Errands(beside_a_loop)
        self._few: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_AT_ONCE))
        self.loop = Loop("resolve", self.run_once, period)

    async def start(self) -> None:
        """Begin."""
        self.loop.start()

    async def stop(self) -> None:
        """Ask nobody any more."""
        await self.loop.stop()
        await self._errands.stop()

    async def run_once(self) -> None:
        """Settle what needs no registry, and begin to ask for the rest."""
        wanted, hosts = await self._storage.read(survey)
        for each in wanted:
            self._errands.start(each.key, self._resolve, each, hosts)

    async def _resolve(self, wanted: Unresolved, hosts: Collection[Platform]) -> None:
        known = await self._known(wanted)
        answer = known or await self._ask(wanted.pinned, hosts)
        if isinstance(answer, Failure):
            changed = await self._storage.write(note_failure, wanted, answer, by=self._by)
        else:
            changed = await self._storage.write(settle, wanted, answer)
        if changed:
            await ring(self._bus, KernelStatus.PENDING)

    async def _known(self, wanted: Unresolved) -> ResolvedImage | None:
        digest = wanted.pinned.digest
        if digest is None:
            return None
        return (await self._storage.read(resolved.find, (digest,))).get(digest)

    async def _ask(
        self, reference: Reference, hosts: Collection[Platform]
    ) -> ResolvedImage | Failure:
        async with self._few[reference.registry]:
            try:
                connection = await self._registries.connection(reference.registry)
                return await self._client.resolve(reference, connection, hosts)
            except (UnknownRegistry, VaultError) as error:
                return Failure(FailureClass.AUTH, error.message, error.code)
            except FailureError as error:
                return error.failure


def survey(conn: Connection) -> tuple[Sequence[Unresolved], Collection[Platform]]:
    """What is to be asked for now, and the platforms of the agents."""
    rows = conn.execute(
        select(tables.kernels.c.reference, tables.kernels.c.root_digest)
        .where(
            _unresolved(),
            (tables.kernels.c.next_try_at.is_(None)) | (tables.kernels.c.next_try_at <= now(conn)),
        )
        .distinct()
        .order_by(tables.kernels.c.reference)
    ).all()
    wanted = [_wanted(conn, row.reference, row.root_digest) for row in rows]
    return wanted, {agent.platform for agent in agents.present(conn)} if wanted else set()


def settle(conn: Connection, wanted: Unresolved, image: ResolvedImage) -> bool:
    """Every kernel that waits for this reference has its root digest; whether there was any.

    A reference the catalogue has never had is in it from now on when a superadmin waits for it.
    """
    reference = Reference.parse(wanted.reference)
    if entries.find(conn, reference) is None and _a_superadmin_asks_for(conn, wanted):
        entries.register(conn, replace(image, reference=reference))
    changed = conn.execute(
        update(tables.kernels)
        .where(_unresolved(), _asks_for(wanted))
        .values(
            root_digest=image.root_digest,
            status_info="",
            status_data=None,
            tries=0,
            failing_since=None,
            next_try_at=None,
        )
    )
    resolved.keep(conn, image)
    return changed.rowcount > 0


def _a_superadmin_asks_for(conn: Connection, wanted: Unresolved) -> bool:
    users, waiting = tables.users, tables.kernels
    asking = exists().where(
        users.c.id == waiting.c.owner_id,
        users.c.role == Role.SUPERADMIN,
        _unresolved(),
        _asks_for(wanted),
    )
    return bool(conn.scalar(select(asking)))


def note_failure(conn: Connection, wanted: Unresolved, failure: Failure, *, by: str) -> bool:
    """Let those kernels that wait for this reference, and are due, wait longer, or end."""
    waiting = kernels.where(conn, _unresolved(), _asks_for(wanted), lock=True)
    due = [kernel for kernel in waiting if kernel.due]
    at = now(conn)
    for kernel in due:
        _note_failure(conn, kernel, failure, at, by=by)
    return bool(due)


def _note_failure(
    conn: Connection, kernel: Kernel, failure: Failure, at: float, *, by: str
) -> None:
    since = at if kernel.failing_since is None else kernel.failing_since
    tries = kernel.tries + 1
    verdict = after_failure(
        failure, tries=tries, agents_failed=0, others=False, failing_for=at - since
    )
    if not isinstance(verdict, Again):
        endings.fail(conn, kernel, failure, by=by)
        return
    next_try_at = at + verdict.delay
    conn.execute(
        update(tables.kernels)
        .where(tables.kernels.c.id == kernel.id, tables.kernels.c.status == KernelStatus.PENDING)
        .values(tries=tries, failing_since=since, next_try_at=next_try_at)
    )
    said = {"failure": failure.to_json(), "nextTryAt": moment(next_try_at)}
    kernels.explain(conn, kernel, Reason.REGISTRY_UNREACHABLE, said)


def _unresolved() -> ColumnElement[bool]:
    """Of kernels: waiting, and without a digest or without what it consists of."""
    return and_(
        tables.kernels.c.status == KernelStatus.PENDING,
        ~exists().where(tables.resolved_images.c.root_digest == tables.kernels.c.root_digest),
    )


def _asks_for(wanted: Unresolved) -> ColumnElement[bool]:
    return and_(
        tables.kernels.c.reference == wanted.reference,
        tables.kernels.c.root_digest.is_(None)
        if wanted.root_digest is None
        else tables.kernels.c.root_digest == wanted.root_digest,
    )


def _wanted(conn: Connection, text: str, root_digest: str | None) -> Unresolved:
    reference = Reference.parse(text)
    digest = root_digest or resolved.meaning(conn, reference)
    pinned = Reference.parse(reference.pinned(digest)) if digest else reference
    return Unresolved(text, root_digest, pinned)
