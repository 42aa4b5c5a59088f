"""An agent composed: one process beside one engine."""

from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.service import Agent, AgentSettings
from wharfinger.run.settings import RemoteAgentSettings


def remote_agent(settings: RemoteAgentSettings) -> Agent:
    """The agent these settings describe; run it with `await agent.run()`."""
    return Agent(
        AgentSettings(
            agent_id=settings.id,
            scaling_group=settings.scaling_group,
            manager_url=settings.manager_url.rstrip("/"),
            join_token=settings.join_token.get_secret_value() if settings.join_token else None,
            state_dir=settings.state_dir,
            host=settings.host,
            port=settings.port,
            advertise=settings.advertise,
        ),
        DockerEngine(settings.engine),
    )
