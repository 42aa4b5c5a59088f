"""A manager composed: the one place that knows which storage, bus and client are in use."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wharfinger.manager.access.service import Access
from wharfinger.manager.api.app import create_app
from wharfinger.manager.api.serve import ApiServer, listen
from wharfinger.manager.api.services import Services
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.figures import Figures
from wharfinger.manager.fleet.service import Fleet
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.images.preload import Preload
from wharfinger.manager.images.service import Images
from wharfinger.manager.images.unload import Unload
from wharfinger.manager.storage.migrate import migrate
from wharfinger.manager.storage.opening import open_storage
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.run.settings import ManagerSettings


@dataclass(frozen=True, slots=True)
class RunningManager:
    """A manager that serves. `url` works as it stands from this machine."""

    url: str
    storage: Storage
    access: Access


@asynccontextmanager
async def running_manager(
    settings: ManagerSettings, *, sole: bool = False
) -> AsyncIterator[RunningManager]:
    """A manager for as long as the context is open.

    With `sole` no other manager shares the database: what dead ones held is taken at once. Leaving
    the context ends streams, hands tasks over and closes everything, within seconds.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    sockets = listen(settings.host, settings.port)
    await asyncio.to_thread(migrate, settings.storage_url)
    manager_id = new_id()
    by = f"manager {manager_id}"
    storage = open_storage(settings.storage_url)
    bus = MemoryBus()
    vault = Vault.from_file(settings.data_dir / "secrets.key")
    client = RegistryClient()
    registries = Registries(storage, vault, client)
    access = Access(storage)
    tasks = BackgroundTasks(storage, bus, timing=Timing(keep=settings.task_retention_days * 86400))
    fleet = Fleet(
        storage, bus, vault, manager_id=manager_id, lost_after=settings.agent_lost_seconds
    )
    preload = Preload(storage, bus, fleet.calls, registries, settings.limits, by)
    images = Images(
        storage, tasks, registries, client, preload, Unload(storage, bus, fleet.calls, by)
    )
    services = Services(
        storage=storage,
        access=access,
        fleet=fleet,
        images=images,
        tasks=tasks,
        registries=registries,
        loops=(fleet.silence, fleet.stale, *tasks.loops),
    )
    app = create_app(services)
    figures = Figures(storage, app.state.metrics.registry)
    server = ApiServer(app, sockets, services.drain)
    serving = asyncio.create_task(server.serve(), name="api")
    try:
        await tasks.start(sole_manager=sole)
        await fleet.start()
        figures.loop.start()
        yield RunningManager(_url(sockets), storage, access)
    finally:
        await server.stop()
        await serving
        await figures.loop.stop()
        await tasks.stop()
        await fleet.stop()
        await client.close()
        await bus.close()
        await storage.close()


def _url(sockets: list[socket.socket]) -> str:
    host, port = sockets[0].getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # not bound here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
