"""Real agents in this process, beside any engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from wharfinger.agent.engine.port import Engine
from wharfinger.agent.service import Agent, AgentSettings
from wharfinger.domain.errors import WharfingerError

START_SECONDS = 10.0


@dataclass(frozen=True)
class RunningAgent:
    """An agent and the task it runs in."""

    agent: Agent
    task: asyncio.Task[None]

    async def registered(self) -> None:
        """Return once its manager knows it; raises what it ended with instead."""
        started = asyncio.create_task(self.agent.started.wait())
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.wait({started, self.task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if self.task.done():
            self.task.result()

    async def ended(self) -> None:
        """Return when it has ended by itself; raises what it ended with."""
        async with asyncio.timeout(START_SECONDS):
            await asyncio.shield(self.task)


StartAgent = Callable[..., Awaitable[RunningAgent]]


@asynccontextmanager
async def running(settings: AgentSettings, engine: Engine) -> AsyncIterator[RunningAgent]:
    """An agent while the context is open; its engine stays open."""
    agent = Agent(settings, engine)
    task = asyncio.create_task(agent.run(), name=f"agent {settings.agent_id}")
    try:
        yield RunningAgent(agent, task)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, WharfingerError):
            await task
