"""Whose turn it is: tasks of one category that wait for those of another, first in, first out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection, select

from wharfinger.domain.states import TASK_TRANSITIONS, TaskStatus
from wharfinger.manager.storage.tables import tasks

Waits = Mapping[str, Collection[str]]
"""By category of tasks, the categories that it waits for. Two that may never run at once wait for
each other."""

_NAMED_AT_MOST = 3


@dataclass(frozen=True, slots=True)
class Place:
    """One outstanding task in the queue."""

    task_id: str
    name: str
    category: str
    running: bool


class Turns:
    """The outstanding tasks that have a category, oldest first, and who waits for whom.

    What runs, runs, whoever holds it. What is pending waits for what runs already and for what was
    made before it, of the categories it waits for; so what waits for what never goes in circles.
    """

    def __init__(self, places: Sequence[Place], waits: Waits) -> None:
        self._places = places
        self._waits = waits

    @classmethod
    def read(cls, conn: Connection, waits: Waits) -> Self:
        """As they are now; nothing is read where no category waits."""
        if not waits:
            return cls((), waits)
        outstanding = conn.execute(
            select(tasks.c.id, tasks.c.name, tasks.c.category, tasks.c.status)
            .where(tasks.c.status.in_(TASK_TRANSITIONS.open), tasks.c.category.is_not(None))
            .order_by(tasks.c.created_at, tasks.c.id)
        )
        return cls(
            [
                Place(row.id, row.name, row.category, row.status == TaskStatus.RUNNING)
                for row in outstanding
            ],
            waits,
        )

    def outstanding(self, held: Collection[str]) -> dict[str, list[str]]:
        """By category, the ids of those that wait for a runner, and of those among `held`."""
        found: dict[str, list[str]] = {}
        for place in self._places:
            if not place.running or place.task_id in held:
                found.setdefault(place.category, []).append(place.task_id)
        return found

    def before_new(self, category: str | None) -> Sequence[Place]:
        """What a task of that category would have to wait for if it were made now."""
        return [place for place in self._places if place.category in self._awaited(category)]

    def before(self, task_id: str) -> Sequence[Place]:
        """What that task has to wait for; nothing when it runs, or is not in the queue."""
        for index, place in enumerate(self._places):
            if place.task_id == task_id:
                return [] if place.running else self._before(index)
        return []

    def _before(self, index: int) -> Sequence[Place]:
        awaited = self._awaited(self._places[index].category)
        return [
            other
            for at, other in enumerate(self._places)
            if other.category in awaited and (other.running or at < index)
        ]

    def _awaited(self, category: str | None) -> Collection[str]:
        return () if category is None else self._waits.get(category, ())


def sentence(awaited: Sequence[Place]) -> str:
    """What a task that waits says: `waits for rescan 5f…`; nothing when it does not wait."""
    if not awaited:
        return ""
    named = ", ".join(f"{place.name} {place.task_id}" for place in awaited[:_NAMED_AT_MOST])
    more = len(awaited) - _NAMED_AT_MOST
    return f"waits for {named}" + (f" and {more} more" if more > 0 else "")
