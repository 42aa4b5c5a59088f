"""How many pulls may be in flight: per agent, per registry and in all."""

from dataclasses import dataclass

from sqlalchemy import Connection

from wharfinger.manager.pulls.attempts import count_open


@dataclass(frozen=True, slots=True)
class Limits:
    """Open attempts at most."""

    per_agent: int = 3
    per_registry: int = 64
    total: int = 128

    def room(self, conn: Connection, agent_id: str, registry: str) -> bool:
        """Whether one more attempt may be made, in the transaction that makes it."""
        return (
            count_open(conn, agent_id=agent_id) < self.per_agent
            and count_open(conn, registry=registry) < self.per_registry
            and count_open(conn) < self.total
        )
