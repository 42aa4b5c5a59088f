"""A manager's tasks of images, one agent that answers as a test tells it, and one that is away."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from cryptography.fernet import Fernet
from rig.odd_agent import OddAgent
from rig.rows import insert_agent
from rig.tasks import BRISK, UnreliableStorage, end_of, within
from sqlalchemy import Connection

from wharfinger.domain.states import AgentStatus, TaskStatus
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.fleet import agents, pause
from wharfinger.manager.fleet.calls import AgentCalls
from wharfinger.manager.fleet.views import AgentContact
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import ItemRow, NewItem
from wharfinger.manager.images.listing import PRELOAD, UNLOAD
from wharfinger.manager.images.preload import Preload
from wharfinger.manager.images.unload import Unload
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient


@dataclass
class Wharf:
    """The tasks of one manager, with agents `a-1` (answers) and `away` (is LOST)."""

    storage: UnreliableStorage
    bus: MemoryBus
    vault: Vault
    tasks: BackgroundTasks
    calls: AgentCalls
    agent: OddAgent

    async def start(
        self, function: str, *new: NewItem, arguments: Mapping[str, Any] | None = None
    ) -> str:
        """Start a preload or an unload of these items; the task's id."""

        def insert(conn: Connection) -> str:
            task_id = self.tasks.insert_named(
                conn, name=function, function=function, arguments=arguments or {}, owner_id="ada"
            )
            rows.add(conn, task_id, new, by="test")
            return task_id

        task_id = await self.storage.write(insert)
        await self.tasks.launch(task_id)
        return task_id

    async def end(self, task_id: str) -> tuple[TaskStatus, list[ItemRow]]:
        """How it ended."""
        status = await within(end_of(self.tasks, task_id))
        return status, await self.storage.read(rows.of_task, task_id)


@pytest.fixture
async def wharf(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wharf]:
    monkeypatch.setattr(pause, "_LONGEST", 0.01)
    monkeypatch.setattr("wharfinger.domain.failures.RETRY_DELAYS", (0.01, 0.01, 0.01))
    monkeypatch.setattr("wharfinger.manager.images.rounds.PERIOD", 0.05)
    unreliable = UnreliableStorage(storage)
    vault = Vault(Fernet.generate_key())

    async def contact(agent_id: str) -> AgentContact | None:
        return await unreliable.read(agents.contact, agent_id)

    bus, calls, client = MemoryBus(), AgentCalls(contact, vault), RegistryClient()
    tasks = BackgroundTasks(unreliable, bus, timing=BRISK)
    registries = Registries(unreliable, vault, client)
    preload = Preload(unreliable, bus, calls, registries, Limits(), "test")
    tasks.register(PRELOAD, preload, rows.as_json)
    unload = Unload(unreliable, bus, calls, "test", ("h.test/base/*",))
    tasks.register(UNLOAD, unload, rows.as_json)

    async def unasked(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=500)

    async with OddAgent(unasked) as agent:

        def insert(conn: Connection) -> None:
            token = vault.encrypt("call-me")
            insert_agent(conn, "a-1", address=agent.url, call_token_encrypted=token)
            insert_agent(conn, "away", status=AgentStatus.LOST, call_token_encrypted=token)

        await storage.write(insert)
        yield Wharf(unreliable, bus, vault, tasks, calls, agent)
        unreliable.down = False
        await tasks.stop()
    await calls.close()
    await client.close()
    await bus.close()
