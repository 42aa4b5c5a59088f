"""A manager composed: the one place that knows which storage, bus and client are in use."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from wharfinger.manager.access.service import Access
from wharfinger.manager.api.app import create_app
from wharfinger.manager.api.metrics import Metrics
from wharfinger.manager.api.serve import ApiServer, listen
from wharfinger.manager.api.services import Services
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.rescan import Rescan
from wharfinger.manager.catalogue.service import Catalogue
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.figures import Figures, SchedulerFigures
from wharfinger.manager.fleet.service import Fleet
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.images.preload import Preload
from wharfinger.manager.images.service import Images
from wharfinger.manager.images.unload import Unload
from wharfinger.manager.sessions.containers import read_containers
from wharfinger.manager.sessions.following import read_events
from wharfinger.manager.storage.migrate import migrate
from wharfinger.manager.storage.opening import open_storage
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.run.alone import alone
from wharfinger.run.bus import open_bus
from wharfinger.run.sessions import running_sessions
from wharfinger.run.settings import ManagerSettings

_WAITS = {"download": {"rescan"}, "rescan": {"download"}}
"""No image is downloaded while the catalogue is read anew, nor the other way round."""


@dataclass(frozen=True, slots=True)
class RunningManager:
    """A manager that serves. `url` works as it stands from this machine; `services` are what its
    API calls."""

    url: str
    storage: Storage
    access: Access
    services: Services


@asynccontextmanager
async def running_manager(
    settings: ManagerSettings, *, sole: bool = False
) -> AsyncIterator[RunningManager]:
    """A manager for as long as the context is open.

    Raises `Conflict` when another manager uses the SQLite database of the data folder. With `sole` no
    other manager shares the database: what dead ones held is taken at once. Leaving
    the context ends streams, hands tasks over and closes everything, within seconds.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with AsyncExitStack() as closing:
        sockets = listen(settings.host, settings.port)
        for bound in sockets:
            closing.callback(bound.close)
        if settings.database_url is None:
            closing.enter_context(alone(settings.data_dir / "wharfinger.db.lock"))
        await asyncio.to_thread(migrate, settings.storage_url)

        storage = open_storage(settings.storage_url)
        closing.push_async_callback(storage.close)
        opened = await closing.enter_async_context(open_bus(settings))
        bus = opened.bus
        client = RegistryClient()
        closing.push_async_callback(client.close)

        manager_id = new_id()
        by = f"manager {manager_id}"
        vault = _vault(settings)
        registries = Registries(storage, vault, client)
        access = Access(storage)
        keep = Timing(keep=settings.task_retention_days * 86400)
        tasks = BackgroundTasks(storage, bus, timing=keep, waits=_WAITS, mirror=opened.outstanding)
        fleet = Fleet(
            storage,
            bus,
            vault,
            manager_id=manager_id,
            lost_after=settings.agent_lost_seconds,
            readers=(read_events, read_containers),
        )
        preload = Preload(storage, bus, fleet.calls, registries, settings.limits, by)
        unload = Unload(storage, bus, fleet.calls, by, settings.protected_images)
        images = Images(storage, tasks, registries, client, preload, unload)
        rescan = Rescan(storage, registries, client)
        catalogue = Catalogue(storage, tasks, registries, client, rescan)

        metrics = Metrics()
        figures = Figures(storage, metrics.registry)

        closing.push_async_callback(fleet.stop)
        await fleet.start()
        closing.push_async_callback(tasks.stop)
        await tasks.start(sole_manager=sole)
        sessions = await closing.enter_async_context(
            running_sessions(
                settings,
                storage,
                bus,
                fleet.calls,
                registries,
                client,
                by=by,
                observe=SchedulerFigures(metrics.registry).observe,
            )
        )
        closing.push_async_callback(figures.loop.stop)
        figures.loop.start()
        services = Services(
            storage=storage,
            access=access,
            fleet=fleet,
            images=images,
            tasks=tasks,
            registries=registries,
            sessions=sessions.service,
            catalogue=catalogue,
            loops=(fleet.silence, fleet.stale, *tasks.loops, *sessions.loops),
        )
        app = create_app(services, metrics)
        server = ApiServer(app, sockets, services.drain)
        serving = asyncio.create_task(server.serve(), name="api")
        closing.push_async_callback(_stop, server, serving)
        yield RunningManager(_url(sockets), storage, access, services)


async def _stop(server: ApiServer, serving: asyncio.Task[None]) -> None:
    await server.stop()
    await serving


def _vault(settings: ManagerSettings) -> Vault:
    if settings.secrets_key is not None:
        return Vault(settings.secrets_key.get_secret_value().encode())
    return Vault.from_file(settings.data_dir / "secrets.key")


def _url(sockets: list[socket.socket]) -> str:
    host, port = sockets[0].getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # not bound here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
