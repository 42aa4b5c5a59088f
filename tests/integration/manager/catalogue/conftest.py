"""A manager's catalogue, with its tasks, and registries to read."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from rig.people import ROOT
from rig.registry import Registry
from rig.tasks import BRISK
from sqlalchemy import Connection, select

from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import TaskEvent, TaskView
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.catalogue.entries import CatalogueEntry
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.rescan import Rescan
from wharfinger.manager.catalogue.service import Catalogue
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.transport import Limits

FULL = os.environ.get("WHARFINGER_TEST_EXTENT") == "full"
PATIENCE_SECONDS = 1800 if FULL else 60


@dataclass
class Shelf:
    """The catalogue of one manager."""

    storage: Storage
    tasks: BackgroundTasks
    registries: Registries
    client: RegistryClient
    catalogue: Catalogue

    async def know(
        self, *hosts: str, user: tuple[str, str] | tuple[None, None] = (None, None)
    ) -> None:
        for host in hosts:
            await self.registries.add(f"http://{host}", *user, who=ROOT)

    async def wait(self, task_id: str) -> Sequence[TaskEvent]:
        """The events of a task up to its end; thousands of tags take a loaded machine minutes."""
        async with asyncio.timeout(PATIENCE_SECONDS), self.tasks.watch(task_id) as watched:
            return [event async for event in watched]

    async def rescan(self, registry: str | None = None) -> TaskView:
        """One rescan, at its end."""
        task_id = await self.catalogue.rescan(registry, wait=False, who=ROOT)
        await self.wait(task_id)
        return await self.tasks.show(task_id)

    async def read(self, registry: str | None = None) -> Mapping[str, Any]:
        """A rescan that succeeds; what it says of its first registry."""
        view = await self.rescan(registry)
        assert view.status is TaskStatus.SUCCEEDED, (view.message, view.detail)
        return told(view)

    async def entries(self) -> dict[str, CatalogueEntry]:
        """All, by what follows the host."""

        def look(conn: Connection) -> dict[str, CatalogueEntry]:
            rows = conn.execute(select(tables.images).order_by(tables.images.c.reference))
            return {row.reference.partition("/")[2]: CatalogueEntry.of(row) for row in rows}

        return await self.storage.read(look)

    async def standing(self) -> dict[str, str]:
        """The status of each."""
        return {name: entry.status.value for name, entry in (await self.entries()).items()}


def told(view: TaskView, index: int = 0) -> Mapping[str, Any]:
    """What a rescan says of one registry."""
    assert view.detail is not None
    found = view.detail["registries"][index]
    assert isinstance(found, dict)
    return found


@pytest.fixture
async def shelf(storage: Storage) -> AsyncIterator[Shelf]:
    async with _shelf(storage) as made:
        yield made


@pytest.fixture
async def sqlite_shelf(sqlite_storage: Storage) -> AsyncIterator[Shelf]:
    """On one database, for tests that any will do for."""
    async with _shelf(sqlite_storage) as made:
        yield made


@asynccontextmanager
async def _shelf(storage: Storage) -> AsyncIterator[Shelf]:
    limits = Limits(tries=2, tries_seconds=0.2, first_wait=0.01)
    bus = MemoryBus()
    waits = {"download": {"rescan"}, "rescan": {"download"}}
    tasks = BackgroundTasks(storage, bus, timing=BRISK, waits=waits)
    async with RegistryClient(limits) as client:
        registries = Registries(storage, Vault(Fernet.generate_key()), client)
        rescan = Rescan(storage, registries, client)
        catalogue = Catalogue(storage, tasks, registries, client, rescan)
        await tasks.start()
        yield Shelf(storage, tasks, registries, client, catalogue)
        await tasks.stop()
    await bus.close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry(tmp_path / "registry") as running:
        yield running
