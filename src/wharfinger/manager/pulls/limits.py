"""How many pulls may be in flight: per agent, per registry and in all."""

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Connection

from wharfinger.manager.pulls.attempts import count_open


@dataclass(frozen=True, slots=True)
class Limits:
    """Open attempts at most."""

    per_agent: int = 3
    per_registry: int = 64
    total: int = 128

    def room(self, conn: Connection) -> "Room":
        """What is left now, in the transaction that makes the attempts."""
        return Room(self, count_open(conn))


class Room:
    """What the limits leave, and less with every attempt that takes its place."""

    def __init__(self, limits: Limits, in_flight: Counter[tuple[str, str]]) -> None:
        """`in_flight` counts open attempts by (agent id, registry)."""
        self._limits = limits
        self._of_agent: Counter[str] = Counter()
        self._of_registry: Counter[str] = Counter()
        for (agent_id, registry), count in in_flight.items():
            self._of_agent[agent_id] += count
            self._of_registry[registry] += count

    def has(self, agent_id: str, registry: str) -> bool:
        """Whether one more attempt may be made."""
        return (
            self._of_agent[agent_id] < self._limits.per_agent
            and self._of_registry[registry] < self._limits.per_registry
            and self._of_agent.total() < self._limits.total
        )

    def take(self, agent_id: str, registry: str) -> bool:
        """Take the place of one more attempt; False when there is none."""
        if not self.has(agent_id, registry):
            return False
        self._of_agent[agent_id] += 1
        self._of_registry[registry] += 1
        return True
