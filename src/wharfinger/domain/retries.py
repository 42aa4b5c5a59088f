"""What follows a session's failed attempt: here again, on another agent, or never.

Three tries more on the same agent, then another agent, at most three of them; and a registry that
is away for everybody uses nobody up in less than a minute.
"""

from dataclasses import dataclass
from typing import Final

from wharfinger.domain.failures import RETRY_DELAYS, Failure, FailureClass, Scope, retry_delay

MOST_AGENTS: Final = 3
"""Agents that may fail a kernel before it ends."""
AVOID_SECONDS: Final = 300.0
"""How long sessions avoid an agent for an image it failed to get."""
PATIENCE_SECONDS: Final = 60.0
"""A failure that may pass ends nothing before it has lasted this long."""


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after `delay` seconds, on this agent or another."""

    delay: float


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Avoid this agent for this image, and try another at once."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It ends with this failure."""


Verdict = Again | Elsewhere | GiveUp


def after_failure(
    failure: Failure, *, tries: int, agents_failed: int, others: bool, failing_for: float
) -> Verdict:
    """What follows the `tries`-th failed attempt in a row on an agent.

    `agents_failed` counts the agents given up before this one, `others` tells whether any other
    agent may take it, `failing_for` is in seconds since the first failure in a row.
    """
    elsewhere = others and agents_failed + 1 < MOST_AGENTS
    match failure.scope:
        case Scope.IMAGE:
            return GiveUp()
        case Scope.AGENT:
            return Elsewhere() if elsewhere else GiveUp()
        case Scope.TRANSIENT:
            return _after_passing(failure, tries, failing_for, elsewhere=elsewhere)


def _after_passing(failure: Failure, tries: int, failing_for: float, *, elsewhere: bool) -> Verdict:
    delay = retry_delay(failure, tries)
    if elsewhere and (delay is None or failure.failure_class is FailureClass.AGENT_LOST):
        return Elsewhere()
    if delay is None and failing_for < PATIENCE_SECONDS:
        delay = max(RETRY_DELAYS[-1], failure.retry_after or 0.0)
    return GiveUp() if delay is None else Again(delay)
