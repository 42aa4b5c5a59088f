"""Reading one registry for a rescan: its repositories, their tags, and what those mean now."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import Connection

from wharfinger.domain.errors import InvalidReference, WharfingerError
from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.domain.references import Reference
from wharfinger.manager.background.port import TaskRun
from wharfinger.manager.catalogue import sightings
from wharfinger.manager.catalogue.abreast import abreast
from wharfinger.manager.catalogue.entries import EntryStatus
from wharfinger.manager.catalogue.sightings import Before, Sightings
from wharfinger.manager.catalogue.tally import Tally
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.failures import PassingFailure, error_codes
from wharfinger.registry.images import ResolvedImage

P = ParamSpec("P")
T = TypeVar("T")

BATCH: Final = 200
"""Tags that are held, looked up and written at once."""
REQUESTS_AT_ONCE: Final = 6
"""Of one registry; the client makes 8, and sessions and preloads need some."""
REPOSITORIES_AT_ONCE: Final = 4
PATIENCE: Final = 12
"""Failures in a row that may pass, after which a registry is left alone."""

_KEEPS_TO_ITSELF: Final = frozenset(
    {FailureClass.AUTH, FailureClass.NOT_FOUND, FailureClass.UNSUPPORTED}
)
"""What registries answer that let nobody read which repositories they have."""


class GivenUp(Exception):
    """The registry answers nothing any more; `met` is what it failed with last."""

    def __init__(self, met: FailureError) -> None:
        super().__init__(met.message)
        self.met = met


@dataclass(frozen=True, slots=True)
class Scan:
    """What reads one registry: for `run`, which began at `since` by the database's clock. `tally`
    is told what is found, `tell` that it was. Of those that write for a run, `turn` lets one do so
    at a time: they all lock its task."""

    storage: Storage
    client: RegistryClient
    connection: RegistryConnection
    run: TaskRun
    since: float
    tally: Tally
    tell: Callable[[], Awaitable[None]]
    turn: asyncio.Lock


class RegistryScan:
    """One reading of one registry. Nothing of it is used again."""

    def __init__(self, scan: Scan) -> None:
        self._our = scan
        self._tally = scan.tally
        self._few = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._failed_in_a_row = 0

    async def read(self) -> None:
        """Read all of it into the catalogue. Raises `GivenUp`, and `LostTask`."""
        async with aclosing(self._repositories()) as names:
            await abreast(names, self._repository, REPOSITORIES_AT_ONCE)

    async def _repositories(self) -> AsyncGenerator[str, None]:
        """Those the catalogue has, then those only the registry has, as `host/name`."""
        our, host = self._our, self._our.connection.host
        after = ""
        while names := await our.storage.read(sightings.repositories, host, after, BATCH):
            for name in names:
                yield name
            after = names[-1]
        pages = our.client.repositories(our.connection)
        try:
            async with aclosing(pages):
                async for page in pages:
                    listed = [f"{host}/{name}" for name in page]
                    for start in range(0, len(listed), BATCH):
                        some = listed[start : start + BATCH]
                        here = await our.storage.read(sightings.known_repositories, host, some)
                        for name in some:
                            if name not in here:
                                yield name
        except FailureError as error:
            if error.failure.failure_class in _KEEPS_TO_ITSELF:
                self._tally.lists = False
            else:
                self._tally.fail(error, registry=host)

    async def _repository(self, name: str) -> None:
        """Read one; what is not seen any more is missing, if its list could be read to its end."""
        try:
            path = Reference.parse(f"{name}:v").repository
            pages = self._our.client.tags(self._our.connection, path)
            async with aclosing(pages):
                async for page in pages:
                    self._tally.tags += len(page)
                    for start in range(0, len(page), BATCH):
                        await self._batch(name, page[start : start + BATCH])
        except (FailureError, InvalidReference) as error:
            if not _says_unknown(error):
                self._fail(error, repository=name)
                return
        self._tally.repositories += 1
        await self._pinned(name)
        self._tally.missing += await self._write(sightings.lose_unseen, name, self._our.since)
        await self._our.tell()

    async def _batch(self, repository: str, tags: Sequence[str]) -> None:
        references = self._references(repository, tags)
        before = await self._our.storage.read(sightings.known, list(map(str, references)))
        wanted = [each for each in references if not _forgotten(before, each)]
        self._tally.read += len(tags) - len(wanted)
        seen = _Seen(before)
        await abreast(wanted, lambda reference: self._look(reference, seen), REQUESTS_AT_ONCE)
        await abreast(
            list(seen.elsewhere.items()),
            lambda item: self._describe(item[0], item[1], seen),
            REQUESTS_AT_ONCE,
        )
        await self._note(before, Sightings(seen.same, seen.found, seen.unread))
        await self._our.tell()

    def _references(self, repository: str, tags: Sequence[str]) -> list[Reference]:
        """What the tags are called in full; a name that nobody can ask for fails alone."""
        read: dict[str, Reference] = {}
        for tag in tags:
            try:
                reference = Reference.parse(f"{repository}:{tag}")
            except InvalidReference as error:
                self._tally.fail(error, reference=f"{repository}:{tag}"[:255])
            else:
                read[str(reference)] = reference
        return list(read.values())

    async def _look(self, reference: Reference, seen: "_Seen") -> None:
        """Ask for the digest a tag has now."""
        known = seen.before.get(str(reference))
        try:
            async with self._few:
                digest = await self._our.client.digest(
                    reference, self._our.connection, known[0] if known else None
                )
        except FailureError as error:
            self._unreadable([reference], error, seen)
        else:
            self._failed_in_a_row = 0
            if known and known[0] == digest:
                seen.same.append(str(reference))
            else:
                seen.elsewhere[digest].append(reference)
        self._tally.read += 1
        await self._our.tell()

    async def _describe(self, digest: str, references: Sequence[Reference], seen: "_Seen") -> None:
        """Read what a new digest stands for, once for all tags that mean it."""
        pinned = replace(references[0], tag=None, digest=digest)
        try:
            async with self._few:
                image = await self._our.client.resolve(pinned, self._our.connection)
        except FailureError as error:
            self._unreadable(references, error, seen)
        else:
            self._failed_in_a_row = 0
            seen.found += [replace(image, reference=each) for each in references]

    async def _pinned(self, repository: str) -> None:
        """Look whether what the catalogue knows by digest is there still: no list has it."""
        storage, after = self._our.storage, ""
        while pinned := await storage.read(sightings.pinned, repository, after, BATCH):
            after = pinned[-1]
            seen = _Seen(await storage.read(sightings.known, pinned))
            await abreast(
                map(Reference.parse, pinned),
                lambda each, seen=seen: self._look_pinned(each, seen),  # type: ignore[misc]
                REQUESTS_AT_ONCE,
            )
            await self._note(seen.before, Sightings(seen.same, (), seen.unread))
            self._tally.missing += await self._write(sightings.lose, seen.lost)

    async def _look_pinned(self, reference: Reference, seen: "_Seen") -> None:
        try:
            async with self._few:
                await self._our.client.digest(reference, self._our.connection)
        except FailureError as error:
            if error.failure.failure_class is FailureClass.NOT_FOUND:
                seen.lost.append(str(reference))
            else:
                self._unreadable([reference], error, seen)
        else:
            self._failed_in_a_row = 0
            seen.same.append(str(reference))

    async def _note(self, before: Before, seen: Sightings) -> None:
        changes = await self._write(sightings.note, before, seen)
        self._tally.new += changes.new
        self._tally.moved += changes.moved
        self._tally.unchanged += changes.unchanged

    async def _write(
        self,
        function: Callable[Concatenate[Connection, str, int, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Write for this run of the task. Raises `LostTask`."""
        run = self._our.run

        def write(conn: Connection) -> T:
            return function(conn, run.task_id, run.epoch, *args, **kwargs)

        async with self._our.turn:
            return await self._our.storage.write(write)

    def _unreadable(
        self, references: Sequence[Reference], error: FailureError, seen: "_Seen"
    ) -> None:
        """What is no image (a chart, a signature) is no failure; what is listed but cannot be read
        is not missing, unless the registry itself says so."""
        failure_class = error.failure.failure_class
        if failure_class is FailureClass.NOT_AN_IMAGE:
            self._tally.others += len(references)
            return
        if failure_class is not FailureClass.NOT_FOUND:
            seen.unread += map(str, references)
        for each in references:
            self._fail(error, reference=str(each))

    def _fail(self, error: WharfingerError, **subject: str) -> None:
        """Note it, and give the registry up where it seems to be gone."""
        self._tally.fail(error, **subject)
        if not isinstance(error, FailureError):
            return
        network = error.failure.failure_class is FailureClass.NETWORK
        if network or isinstance(error, PassingFailure):
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= PATIENCE:
                raise GivenUp(error)


@dataclass(slots=True)
class _Seen:
    """What one batch has come to: `elsewhere` are references by their new digest."""

    before: Before
    same: list[str] = field(default_factory=list)
    elsewhere: defaultdict[str, list[Reference]] = field(default_factory=lambda: defaultdict(list))
    found: list[ResolvedImage] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def _forgotten(before: Before, reference: Reference) -> bool:
    known = before.get(str(reference))
    return known is not None and known[1] is EntryStatus.FORGOTTEN


def _says_unknown(error: WharfingerError) -> bool:
    """Whether a registry itself says that it has no such repository, which then has no tags. A page
    of a proxy in front of it says nothing."""
    return (
        isinstance(error, FailureError)
        and error.failure.failure_class is FailureClass.NOT_FOUND
        and bool(error_codes(error.failure.detail.partition(": ")[2].encode()))
    )
