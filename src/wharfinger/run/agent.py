"""An agent composed: one process beside one engine."""

from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.service import Agent, AgentSettings
from wharfinger.run.settings import RemoteAgentSettings


async def run_agent(settings: RemoteAgentSettings) -> None:
    """Run the agent these settings describe until cancelled, or until it has to end."""
    engine = DockerEngine(settings.engine)
    join_token = settings.join_token.get_secret_value() if settings.join_token else None
    try:
        await Agent(
            AgentSettings(
                agent_id=settings.id,
                scaling_group=settings.scaling_group,
                manager_url=settings.manager_url.rstrip("/"),
                join_token=join_token,
                state_dir=settings.state_dir,
                host=settings.host,
                port=settings.port,
                advertise=settings.advertise,
            ),
            engine,
        ).run()
    finally:
        await engine.close()
