"""How many pulls may be in flight: per agent, per registry and in all. And what they must leave."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection

from wharfinger.manager.pulls.attempts import PullPlace, in_flight


@dataclass(frozen=True, slots=True)
class Limits:
    """Pulls at most; attempts of one agent at one image share a pull. `disk_margin` is how many
    bytes of an agent's disk every one of them has to leave free."""

    per_agent: int = 3
    per_registry: int = 64
    total: int = 128
    disk_margin: int = 2**30

    def room(self, conn: Connection) -> "Room":
        """What is left now, in the transaction that makes the attempts."""
        return Room(self, in_flight(conn))


class Room:
    """What the limits leave, and less with every pull that takes its place."""

    def __init__(self, limits: Limits, taken: Collection[PullPlace]) -> None:
        self._limits = limits
        self._taken = set(taken)
        self._of_agent = Counter(place.agent_id for place in self._taken)
        self._of_registry = Counter(place.registry for place in self._taken)

    def has(self, place: PullPlace) -> bool:
        """Whether an attempt may be made there: the pull runs already, or one more may."""
        return place in self._taken or (
            self._of_agent[place.agent_id] < self._limits.per_agent
            and self._of_registry[place.registry] < self._limits.per_registry
            and len(self._taken) < self._limits.total
        )

    def take(self, place: PullPlace) -> bool:
        """Take the place; False when there is none."""
        if not self.has(place):
            return False
        if place not in self._taken:
            self._taken.add(place)
            self._of_agent[place.agent_id] += 1
            self._of_registry[place.registry] += 1
        return True
