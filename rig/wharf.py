"""A manager, its agents and their simulated engines in this process, and a real registry's images.

The manager is the one that `wharfinger manager` runs, on SQLite; agents are called over loopback.
"""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self
from unittest.mock import patch

from sqlalchemy import event

from rig.agents import RunningAgent, running
from rig.cargo import Cargo
from rig.late_storage import LateStorage
from rig.ports import free_port
from rig.promises import Promises, Quota
from wharfinger.agent.engine.simulated import SimulatedEngine
from wharfinger.agent.service import AgentSettings
from wharfinger.domain.errors import WharfingerError
from wharfinger.manager.access.limits import LimitChanges
from wharfinger.manager.access.principal import Principal, Role
from wharfinger.manager.access.service import Access
from wharfinger.manager.api.services import Services
from wharfinger.manager.storage.opening import database_url
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.sqlite import SqliteStorage
from wharfinger.run.manager import running_manager
from wharfinger.run.settings import ManagerSettings

AGENTS: Final = {"east-1": "east", "east-2": "east", "west-1": "west", "west-2": "west"}
"""The scaling group of each."""
CPU: Final = 4_000
MEM: Final = 8 * 2**30
QUOTA: Final = Quota(cpu=6_000, sessions=6)
"""Of every plain user."""

_BYTES_PER_SECOND: Final = 250_000.0
_LOST_SECONDS: Final = 2.0
_GRACE_SECONDS: Final = 3.0
_LATEST: Final = 0.03
"""Seconds that a transaction comes late at most."""
_UP_SECONDS: Final = 30.0


class WatchedEngine(SimulatedEngine):
    """Tells before a name is taken away, unless that is done by hand."""

    def watch(self, agent_id: str, promises: Promises) -> None:
        self._agent_id, self._promises = agent_id, promises

    async def untag(self, name: str) -> None:
        image = await self.inspect(name)
        if image is not None:
            used = any(each.image_id == image.image_id for each in await self.containers())
            self._promises.check_untag(self._agent_id, name, image, used=used)
        await super().untag(name)

    async def untag_by_hand(self, name: str) -> None:
        """Somebody takes a name away beside the manager."""
        await super().untag(name)


class Wharf:
    """All of it, for as long as the context is open; entering returns once the agents are UP."""

    promises: Promises
    root: Principal
    users: Sequence[Principal]

    def __init__(self, folder: Path, cargo: Cargo, random: Random) -> None:
        self.cargo = cargo
        self.engines: Mapping[str, WatchedEngine] = {
            agent_id: WatchedEngine(cargo.library, bytes_per_second=_BYTES_PER_SECOND)
            for agent_id in AGENTS
        }
        self._folder = folder
        self._random = random
        self._settings = ManagerSettings(
            host="127.0.0.1",
            port=free_port(),
            data_dir=folder / "data",
            agent_lost_seconds=_LOST_SECONDS,
            session_lost_grace_seconds=_GRACE_SECONDS,
        )
        self._services: Services | None = None
        self._serves = asyncio.Event()
        self._storage: LateStorage | None = None
        self._manager: asyncio.Task[None] | None = None
        self._agents: dict[str, tuple[RunningAgent, AsyncExitStack]] = {}
        self._join_token = ""

    async def __aenter__(self) -> Self:
        await self.start_manager()
        services = await self.services()
        await self._prepare(services)
        for agent_id, engine in self.engines.items():
            engine.watch(agent_id, self.promises)
            await self.start_agent(agent_id)
        await self.agents_up()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*map(self.stop_agent, AGENTS))
        await self.stop_manager()
        self.promises.close()

    async def services(self) -> Services:
        """What the manager's API calls, as soon as there is a manager."""
        while self._services is None:
            await self._serves.wait()
        return self._services

    async def start_manager(self) -> None:
        """Run a manager, the only one, on what the last one left; it serves on return."""
        self._serves.clear()
        self._manager = asyncio.create_task(self._manage(), name="manager")
        serves = asyncio.create_task(self._serves.wait())
        await asyncio.wait({serves, self._manager}, return_when=asyncio.FIRST_COMPLETED)
        if not serves.done():
            serves.cancel()
            self._manager.result()

    async def stop_manager(self, *, killed: bool = False) -> None:
        """End the manager: by plan, or so that it writes no more from this moment."""
        self._services = None
        self._serves.clear()
        if killed and self._storage is not None:
            await self._storage.cut()
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.cancel()
            with suppress(asyncio.CancelledError):
                await manager

    async def start_agent(self, agent_id: str) -> None:
        """Run an agent beside its engine, which has kept its things."""
        settings = AgentSettings(
            agent_id=agent_id,
            scaling_group=AGENTS[agent_id],
            manager_url=f"http://127.0.0.1:{self._settings.port}",
            state_dir=self._folder / "agents" / agent_id,
            join_token=self._join_token,
            cpu=CPU,
            mem=MEM,
        )
        stack = AsyncExitStack()
        agent = await stack.enter_async_context(running(settings, self.engines[agent_id]))
        self._agents[agent_id] = (agent, stack)

    async def stop_agent(self, agent_id: str) -> None:
        """End an agent's process; twice is fine."""
        if agent_id in self._agents:
            _, stack = self._agents.pop(agent_id)
            await stack.aclose()

    async def agents_up(self) -> None:
        """Return once every agent is UP."""
        async with asyncio.timeout(_UP_SECONDS):
            while True:
                with suppress(WharfingerError):
                    agents = await (await self.services()).fleet.agents()
                    if [agent.status for agent in agents] == ["UP"] * len(AGENTS):
                        return
                await asyncio.sleep(0.05)

    async def _manage(self) -> None:
        def open_late(url: str) -> Storage:
            storage = SqliteStorage(database_url(url))
            for engine in (storage._write_engine, storage._read_engine):  # noqa: SLF001 - for no test else
                event.listen(engine, "connect", _never_wait)
            self._storage = LateStorage(storage, self._random, _LATEST)
            return self._storage

        async with AsyncExitStack() as stack:
            with patch("wharfinger.run.manager.open_storage", open_late):
                manager = await stack.enter_async_context(
                    running_manager(self._settings, sole=True)
                )
            self._services = manager.services
            self._serves.set()
            await asyncio.Event().wait()

    async def _prepare(self, services: Services) -> None:
        """Users, the registry, and its images in the catalogue."""
        access = services.access
        self.root = await _user(access, "root", Role.SUPERADMIN)
        self.users = [await _user(access, name, Role.USER) for name in ("ann", "ben")]
        for user in self.users:
            limits = LimitChanges({"cpu": QUOTA.cpu, "sessions": QUOTA.sessions})
            await access.set_limits(user.name, limits)
        self._join_token = (await access.create_join_token("wharf")).token
        await services.registries.add(f"http://{self.cargo.host}", None, None, who=self.root)
        for reference in self.cargo.tagged:
            await services.catalogue.register(reference, who=self.root)
        quotas = {user.user_id: QUOTA for user in self.users}
        self.promises = Promises(self._settings.data_dir / "wharfinger.db", quotas)


def _never_wait(connection: sqlite3.Connection, _record: object) -> None:
    """No power cut is simulated here, so nothing waits for the disk."""
    connection.execute("PRAGMA synchronous = OFF")


async def _user(access: Access, name: str, role: Role) -> Principal:
    return Principal((await access.add_user(name, role)).id, name, role)
