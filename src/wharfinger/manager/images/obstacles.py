"""Why an agent cannot do its part, as plans, preloads and unloads say it."""

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.manager.fleet.views import AgentView
from wharfinger.registry.images import ResolvedImage


def away(agent: AgentView) -> Failure:
    """It is not UP."""
    return Failure(
        FailureClass.AGENT_LOST,
        f"agent {agent.id} is {agent.status}: look at its process and its network, then ask again",
    )


def silent(agent_id: str, met: str) -> Failure:
    """It does not answer its calls; `met` is what came instead."""
    return Failure(
        FailureClass.AGENT_LOST,
        f"agent {agent_id} does not answer: look at its process and its network",
        met,
    )


def not_for(agent: AgentView, image: ResolvedImage) -> Failure:
    """The image has no variant for it."""
    there = ", ".join(map(str, image.available))
    return Failure(
        FailureClass.WRONG_PLATFORM,
        f"{image.reference} has no variant for {agent.platform}; it has {there or 'none'}: "
        "push one, or leave this host out",
    )
