"""The cluster's figures for `/metrics`, counted in the database every few seconds.

A scrape never waits for the database: it is shown the last count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, Histogram
from sqlalchemy import Column, ColumnElement, Connection, case, func, select

from wharfinger.domain.sessions import OPEN
from wharfinger.domain.states import (
    ATTEMPT_TRANSITIONS,
    ITEM_TRANSITIONS,
    TASK_TRANSITIONS,
    AgentStatus,
    KernelStatus,
)
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions.durations import Durations
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class _Counts:
    agents: Mapping[str, int]
    tasks: Mapping[str, int]
    items: Mapping[str, int]
    pulls: Mapping[str, int]
    sessions: Mapping[str, int]
    kernels: Mapping[str, int]
    waiting: Mapping[str, int]


class Figures:
    """Gauges of agents, live tasks, items, sessions and kernels, and pulls in flight; and how long
    kernels were in their states."""

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
        self._sessions = Gauge(
            "wharfinger_sessions", "Sessions not ended.", ("status",), registry=registry
        )
        self._kernels = Gauge(
            "wharfinger_kernels", "Kernels not ended.", ("status",), registry=registry
        )
        self._waiting = Gauge(
            "wharfinger_sessions_waiting",
            "Sessions in the queue, by what they wait for (`none`: not looked at yet).",
            ("reason",),
            registry=registry,
        )
        self._durations = Durations(storage, registry)
        self.loop = Loop("figures", self.count, _EVERY)

    async def count(self) -> None:
        """Count once."""
        counts = await self._storage.read(_count)
        _show(self._agents, counts.agents, AgentStatus)
        _show(self._tasks, counts.tasks, TASK_TRANSITIONS.open)
        _show(self._items, counts.items, ITEM_TRANSITIONS.open)
        self._pulls.clear()
        _show(self._pulls, counts.pulls, counts.pulls)
        _show(self._sessions, counts.sessions, OPEN)
        _show(self._kernels, counts.kernels, OPEN)
        self._waiting.clear()
        _show(self._waiting, counts.waiting, counts.waiting)
        await self._durations.count()


class SchedulerFigures:
    """What a scheduler tells of its rounds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "wharfinger_scheduler_round_seconds",
            "Seconds a round of the scheduler took.",
            registry=registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self._queue = Gauge(
            "wharfinger_scheduler_queue_length",
            "Sessions that the last round of this manager's scheduler left in the queue.",
            registry=registry,
        )
        self._held = Histogram(
            "wharfinger_session_held_back_seconds",
            "Seconds from when a session first waited for the preparation of its image until it "
            "was bound; each is counted once, by the manager that bound it.",
            registry=registry,
            buckets=(0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400),
        )

    def observe(self, round_seconds: float, queue_length: int, held: Sequence[float]) -> None:
        """One round; `held` has the seconds of those it bound that had been held back."""
        self._seconds.observe(round_seconds)
        self._queue.set(queue_length)
        for seconds in held:
            self._held.observe(seconds)


def _show(gauge: Gauge, counts: Mapping[str, int], labels: Iterable[str]) -> None:
    for label in labels:
        gauge.labels(label).set(counts.get(label, 0))


def _count(conn: Connection) -> _Counts:
    agents, tasks, items = tables.agents, tables.tasks, tables.items
    attempts, kernels = tables.attempts, tables.kernels

    def by(column: Column[str], *where: ColumnElement[bool]) -> Mapping[str, int]:
        rows = conn.execute(select(column, func.count()).where(*where).group_by(column))
        return {label: count for label, count in rows}  # noqa: C416  # rows are not pairs

    return _Counts(
        agents=by(agents.c.status),
        tasks=by(tasks.c.status, tasks.c.status.in_(TASK_TRANSITIONS.open)),
        items=by(items.c.status, items.c.status.in_(ITEM_TRANSITIONS.open)),
        pulls=by(attempts.c.registry, attempts.c.status.in_(ATTEMPT_TRANSITIONS.open)),
        sessions=_sessions_by_status(conn),
        kernels=by(kernels.c.status, kernels.c.status.in_(OPEN)),
        waiting=_sessions_by_reason(conn),
    )


def _sessions_by_status(conn: Connection) -> Mapping[str, int]:
    """As `domain.sessions.session_status` derives it, counted where the rows are."""
    kernels = tables.kernels
    places = {status.value: place for place, status in enumerate(OPEN)}
    pulling = places[KernelStatus.PULLING]
    of_each = (
        select(
            func.max(case((kernels.c.status == KernelStatus.PULLING, pulling))).label("pulling"),
            func.min(case(places, value=kernels.c.status)).label("least_far"),
        )
        .where(kernels.c.status.in_(OPEN))
        .group_by(kernels.c.session_id)
        .subquery()
    )
    place = func.coalesce(of_each.c.pulling, of_each.c.least_far)
    rows = conn.execute(select(place, func.count()).group_by(place))
    return {OPEN[place].value: count for place, count in rows}


def _sessions_by_reason(conn: Connection) -> Mapping[str, int]:
    kernels = tables.kernels
    rows = conn.execute(
        select(kernels.c.status_info, func.count(kernels.c.session_id.distinct()))
        .where(kernels.c.status == KernelStatus.PENDING)
        .group_by(kernels.c.status_info)
    )
    return {reason or "none": count for reason, count in rows}
