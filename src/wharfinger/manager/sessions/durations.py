"""How long kernels were in their states, from the transition log as it grows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from sqlalchemy import Connection, func, select

from wharfinger.domain.states import KERNEL_TRANSITIONS, KernelStatus
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.tables import kernels, sessions, transitions

_BATCH: Final = 2000
_BATCHES: Final = 5
"""Rows per count are at most this many batches: a backlog is worked off over several counts."""
_SETTLED_SECONDS: Final = 5.0
"""Rows are counted at this age: by then those with lower numbers are committed as well."""
_BUCKETS: Final = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)


@dataclass(frozen=True, slots=True)
class _Batch:
    upto: int
    full: bool
    in_state: Sequence[tuple[str, float]] = ()
    to_running: Sequence[float] = ()


class Durations:
    """Histograms of what happened since this manager started.

    Every manager counts every kernel: of several managers take one, not the sum.
    """

    def __init__(
        self, storage: Storage, registry: CollectorRegistry, *, settled: float = _SETTLED_SECONDS
    ) -> None:
        self._storage = storage
        self._settled = settled
        self._counted: int | None = None
        self._in_state = Histogram(
            "wharfinger_kernel_state_seconds",
            "Seconds kernels were in a state that they left; every manager counts them all.",
            ("state",),
            registry=registry,
            buckets=_BUCKETS,
        )
        self._to_running = Histogram(
            "wharfinger_session_start_seconds",
            "Seconds from a session's creation until all of its kernels ran; "
            "every manager counts them all.",
            registry=registry,
            buckets=_BUCKETS,
        )

    async def count(self) -> None:
        """Take in what the log has had since the last time."""
        if self._counted is None:
            self._counted = await self._storage.read(_last)
        for _ in range(_BATCHES):
            batch = await self._storage.read(_read, self._counted, self._settled)
            self._counted = batch.upto
            for state, seconds in batch.in_state:
                self._in_state.labels(state).observe(seconds)
            for seconds in batch.to_running:
                self._to_running.observe(seconds)
            if not batch.full:
                return


def _last(conn: Connection) -> int:
    return conn.execute(select(func.max(transitions.c.id))).scalar() or 0


def _read(conn: Connection, counted: int, settled: float) -> _Batch:
    earlier = transitions.alias()
    entered = (
        select(earlier.c.at)
        .where(
            earlier.c.entity == transitions.c.entity,
            earlier.c.entity_id == transitions.c.entity_id,
            earlier.c.id < transitions.c.id,
        )
        .order_by(earlier.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    rows = conn.execute(
        select(
            transitions.c.id,
            transitions.c.entity,
            transitions.c.entity_id,
            transitions.c["from"].label("left"),
            transitions.c.to,
            transitions.c.at,
            entered.label("entered"),
        )
        .where(transitions.c.id > counted)
        .order_by(transitions.c.id)
        .limit(_BATCH)
    ).all()
    horizon = now(conn) - settled
    fresh = next((place for place, row in enumerate(rows) if row.at > horizon), len(rows))
    rows = rows[:fresh]
    if not rows:
        return _Batch(counted, full=False)
    of_kernels = [row for row in rows if row.entity == KERNEL_TRANSITIONS.name]
    return _Batch(
        rows[-1].id,
        full=len(rows) == _BATCH,
        in_state=[
            (row.left, max(0.0, row.at - row.entered))
            for row in of_kernels
            if row.entered is not None
        ],
        to_running=_starts(
            conn, {row.id: row.entity_id for row in of_kernels if row.to == KernelStatus.RUNNING}
        ),
    )


def _starts(conn: Connection, ran: Mapping[int, str]) -> list[float]:
    """Of sessions whose last kernel came to run with one of these rows: kernels by row."""
    if not ran:
        return []
    of_these = select(kernels.c.session_id).where(kernels.c.id.in_(ran.values()))
    rows = conn.execute(
        select(
            sessions.c.created_at,
            func.max(transitions.c.at),
            func.max(transitions.c.id),
        )
        .join(kernels, kernels.c.session_id == sessions.c.id)
        .outerjoin(
            transitions,
            (transitions.c.entity == KERNEL_TRANSITIONS.name)
            & (transitions.c.entity_id == kernels.c.id)
            & (transitions.c.to == KernelStatus.RUNNING),
        )
        .where(sessions.c.id.in_(of_these))
        .group_by(sessions.c.id, sessions.c.created_at)
        .having(func.count(transitions.c.id) == func.count(kernels.c.id))
    )
    return [max(0.0, at - created) for created, at, last in rows if last in ran]
