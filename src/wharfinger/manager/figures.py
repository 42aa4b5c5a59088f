"""The cluster's figures for `/metrics`, counted in the database every few seconds.

A scrape never waits for the database: it is shown the last count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge
from sqlalchemy import Column, ColumnElement, Connection, func, select

from wharfinger.domain.states import (
    ATTEMPT_TRANSITIONS,
    ITEM_TRANSITIONS,
    TASK_TRANSITIONS,
    AgentStatus,
)
from wharfinger.manager.loops import Loop
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class _Counts:
    agents: Mapping[str, int]
    tasks: Mapping[str, int]
    items: Mapping[str, int]
    pulls: Mapping[str, int]


class Figures:
    """Gauges of agents, live tasks and items, and pulls in flight."""

    def __init__(self, storage: Storage, registry: CollectorRegistry) -> None:
        self._storage = storage
        self._agents = Gauge(
            "wharfinger_agents", "Agents, by status.", ("status",), registry=registry
        )
        self._tasks = Gauge(
            "wharfinger_tasks", "Background tasks not ended.", ("status",), registry=registry
        )
        self._items = Gauge(
            "wharfinger_items",
            "Items of preloads and unloads not ended.",
            ("status",),
            registry=registry,
        )
        self._pulls = Gauge(
            "wharfinger_pulls_in_flight",
            "Attempts in flight, by registry.",
            ("registry",),
            registry=registry,
        )
        self.loop = Loop("figures", self.count, _EVERY)

    async def count(self) -> None:
        """Count once."""
        counts = await self._storage.read(_count)
        _show(self._agents, counts.agents, AgentStatus)
        _show(self._tasks, counts.tasks, TASK_TRANSITIONS.open)
        _show(self._items, counts.items, ITEM_TRANSITIONS.open)
        self._pulls.clear()
        _show(self._pulls, counts.pulls, counts.pulls)


def _show(gauge: Gauge, counts: Mapping[str, int], labels: Iterable[str]) -> None:
    for label in labels:
        gauge.labels(label).set(counts.get(label, 0))


def _count(conn: Connection) -> _Counts:
    agents, tasks, items, attempts = (
        tables.agents,
        tables.tasks,
        tables.items,
        tables.attempts,
    )

    def by(column: Column[str], *where: ColumnElement[bool]) -> Mapping[str, int]:
        rows = conn.execute(select(column, func.count()).where(*where).group_by(column))
        return {label: count for label, count in rows}  # noqa: C416  # rows are not pairs

    return _Counts(
        agents=by(agents.c.status),
        tasks=by(tasks.c.status, tasks.c.status.in_(TASK_TRANSITIONS.open)),
        items=by(items.c.status, items.c.status.in_(ITEM_TRANSITIONS.open)),
        pulls=by(attempts.c.registry, attempts.c.status.in_(ATTEMPT_TRANSITIONS.open)),
    )
