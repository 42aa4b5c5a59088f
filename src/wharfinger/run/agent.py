"""An agent composed: one process beside one engine."""

import asyncio
from collections.abc import Callable

from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.service import Agent, AgentSettings
from wharfinger.run.settings import RemoteAgentSettings


async def run_agent(settings: RemoteAgentSettings, joined: Callable[[], None]) -> None:
    """Run the agent these settings describe until cancelled, or until it has to end.

    `joined` is called once the manager knows it.
    """
    engine = DockerEngine(settings.engine)
    join_token = settings.join_token.get_secret_value() if settings.join_token else None
    agent = Agent(
        AgentSettings(
            agent_id=settings.id,
            scaling_group=settings.scaling_group,
            manager_url=settings.manager_url.rstrip("/"),
            join_token=join_token,
            state_dir=settings.state_dir,
            host=settings.host,
            port=settings.port,
            advertise=settings.advertise,
            cpu=settings.cpu,
            mem=settings.mem,
            gpu=settings.gpu,
            network=settings.network,
        ),
        engine,
    )
    telling = asyncio.create_task(_tell(agent, joined), name="agent joined")
    try:
        await agent.run()
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await engine.close()


async def _tell(agent: Agent, joined: Callable[[], None]) -> None:
    await agent.started.wait()
    joined()
