"""Rescan: what registries have now comes into the catalogue, as a background task.

It holds nothing but what it is reading, and begins anew where it is taken over: what it wrote is
true already. A registry, a repository or a tag that cannot be read fails alone.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from wharfinger.domain.errors import UnknownRegistry
from wharfinger.domain.failures import FailureError
from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import TaskResult, TaskRun
from wharfinger.manager.catalogue import tally
from wharfinger.manager.catalogue.abreast import abreast
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.scanning import GivenUp, RegistryScan, Scan
from wharfinger.manager.catalogue.tally import Tally
from wharfinger.manager.catalogue.vault import VaultError
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.errors import StorageUnavailable
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient

log = structlog.get_logger()

RESCAN: Final = "rescan"
"""The name of the task, of its function, and of its category."""

REGISTRIES_AT_ONCE: Final = 4
_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Rescan:
    """The named function of rescans. Arguments: `{"registry": host or None for all}`."""

    storage: Storage
    registries: Registries
    client: RegistryClient

    async def __call__(self, run: TaskRun) -> TaskResult:
        """Read the registries, unless somebody cancels."""
        reading = _Run(self, run)
        work = asyncio.create_task(reading.drive())
        asked = asyncio.create_task(run.wait_cancel_requested())
        try:
            await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            return TaskResult(
                TaskStatus.CANCELLED, "cancelled", detail=tally.detail(reading.tallies)
            )
        finally:
            for each in (work, asked):
                each.cancel()
            await asyncio.gather(work, asked, return_exceptions=True)


class _Run:
    """One run of one rescan, by one manager."""

    def __init__(self, rescan: Rescan, run: TaskRun) -> None:
        self.tallies: list[Tally] = []
        self._our = rescan
        self._run = run
        self._turn = asyncio.Lock()

    async def drive(self) -> TaskResult:
        """Read them all; once more from the beginning when the database was away."""
        while True:
            try:
                return await self._read_all()
            except StorageUnavailable as error:
                log.warning("rescan begins anew", task=self._run.task_id, error=error.to_json())
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _read_all(self) -> TaskResult:
        asked_for = self._run.arguments["registry"]
        known = await self._our.registries.list()
        hosts = [each.host for each in known] if asked_for is None else [asked_for]
        self.tallies = [Tally(host) for host in hosts]
        await abreast(self.tallies, self._read, REGISTRIES_AT_ONCE)
        return tally.result(self.tallies)

    async def _read(self, found: Tally) -> None:
        our = self._our
        try:
            connection = await our.registries.connection(found.registry)
            await our.client.check(connection)
            since = await our.storage.read(now)
            await RegistryScan(
                Scan(
                    our.storage,
                    our.client,
                    connection,
                    self._run,
                    since,
                    found,
                    self._tell,
                    self._turn,
                )
            ).read()
        except GivenUp as error:
            found.fail(error.met, registry=found.registry)
        except (FailureError, UnknownRegistry, VaultError) as error:
            found.fail(error, registry=found.registry)

    async def _tell(self) -> None:
        await self._run(
            current=sum(each.read for each in self.tallies),
            maximum=sum(each.tags for each in self.tallies),
            message=tally.going_on(self.tallies),
        )
