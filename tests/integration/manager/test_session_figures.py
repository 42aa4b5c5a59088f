"""What is measured of sessions."""

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry
from rig.session_rows import add_session, advance
from sqlalchemy import Connection, update

from wharfinger.domain.sessions import OPEN, Reason, session_status
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.figures import Figures, SchedulerFigures
from wharfinger.manager.sessions import durations
from wharfinger.manager.sessions.durations import Durations
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

Sample = Callable[..., float | None]


def sessions(conn: Connection) -> None:
    """Some of each kind."""
    for session_id in ("waits", "new", "pulls", "ended"):
        add_session(conn, session_id)
    add_session(conn, "mixed", kernel_count=3)
    conn.execute(
        update(tables.kernels)
        .where(tables.kernels.c.id == "waits-k1")
        .values(status_info=Reason.NO_FREE_SLOTS)
    )
    advance(conn, "pulls-k1", upto=KernelStatus.PULLING)
    advance(conn, "ended-k1", upto=KernelStatus.TERMINATED)
    advance(conn, "mixed-k1", upto=KernelStatus.PREPARED)
    advance(conn, "mixed-k2", upto=KernelStatus.SCHEDULED)
    advance(conn, "mixed-k3", upto=KernelStatus.RUNNING)


async def test_sessions_and_kernels_are_counted_by_state(storage: Storage) -> None:
    await storage.write(sessions)
    registry = CollectorRegistry()
    await Figures(storage, registry).count()

    def gauge(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    shown = {status: gauge("wharfinger_sessions", status=status) for status in OPEN}
    assert {status: count for status, count in shown.items() if count} == {
        KernelStatus.PENDING: 2,
        KernelStatus.SCHEDULED: 1,
        KernelStatus.PULLING: 1,
    }
    assert gauge("wharfinger_kernels", status="RUNNING") == 1
    assert gauge("wharfinger_kernels", status="PENDING") == 2
    assert gauge("wharfinger_kernels", status="TERMINATED") is None
    assert gauge("wharfinger_sessions_waiting", reason="no-free-slots") == 1
    assert gauge("wharfinger_sessions_waiting", reason="none") == 1


@pytest.mark.parametrize("second", [KernelStatus.PENDING, KernelStatus.PULLING])
@pytest.mark.parametrize("first", [status for status in OPEN if status != KernelStatus.PENDING])
async def test_a_session_counts_as_what_it_is_shown_as(
    sqlite_storage: Storage, first: KernelStatus, second: KernelStatus
) -> None:
    def mixed(conn: Connection) -> None:
        add_session(conn, kernel_count=2)
        advance(conn, "s1-k1", upto=first)
        if second is not KernelStatus.PENDING:
            advance(conn, "s1-k2", upto=second)

    await sqlite_storage.write(mixed)
    registry = CollectorRegistry()
    await Figures(sqlite_storage, registry).count()
    status = session_status([first, second])
    assert registry.get_sample_value("wharfinger_sessions", {"status": status}) == 1


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def count(registry: CollectorRegistry, state: str) -> float:
    name = "wharfinger_kernel_state_seconds_count"
    return registry.get_sample_value(name, {"state": state}) or 0.0


def starts(registry: CollectorRegistry) -> float:
    return registry.get_sample_value("wharfinger_session_start_seconds_count") or 0.0


async def test_each_state_that_was_left_is_counted_once(
    storage: Storage, registry: CollectorRegistry
) -> None:
    await storage.write(add_session, "before")
    await storage.write(advance, "before-k1", upto=KernelStatus.RUNNING)
    figures = Durations(storage, registry, settled=0.0)
    await figures.count()
    assert count(registry, "PENDING") == 0
    await storage.write(add_session)
    await storage.write(advance, "s1-k1", upto=KernelStatus.RUNNING)
    for _ in range(2):
        await figures.count()
        assert count(registry, "PENDING") == 1
        assert count(registry, "CREATING") == 1
        assert count(registry, "RUNNING") == 0
        assert starts(registry) == 1
    total = registry.get_sample_value("wharfinger_kernel_state_seconds_sum", {"state": "PENDING"})
    assert total is not None
    assert 0 <= total < 60


async def test_a_session_starts_once_with_its_last_kernel(
    storage: Storage, registry: CollectorRegistry
) -> None:
    figures = Durations(storage, registry, settled=0.0)
    await figures.count()
    await storage.write(add_session, kernel_count=2)
    await storage.write(advance, "s1-k1", upto=KernelStatus.RUNNING)
    await figures.count()
    assert starts(registry) == 0
    await storage.write(advance, "s1-k2", upto=KernelStatus.RUNNING)
    await figures.count()
    assert starts(registry) == 1


async def test_what_is_too_fresh_is_counted_later(
    storage: Storage, registry: CollectorRegistry
) -> None:
    figures = Durations(storage, registry, settled=3600.0)
    await figures.count()
    await storage.write(add_session)
    await storage.write(advance, "s1-k1", KernelStatus.SCHEDULED)
    await figures.count()
    assert count(registry, "PENDING") == 0
    figures._settled = 0.0
    await figures.count()
    assert count(registry, "PENDING") == 1


async def test_a_backlog_is_worked_off_in_bounded_pieces(
    sqlite_storage: Storage, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durations, "_BATCH", 2)
    monkeypatch.setattr(durations, "_BATCHES", 2)
    figures = Durations(sqlite_storage, registry, settled=0.0)
    await figures.count()
    for number in range(6):
        await sqlite_storage.write(add_session, f"s{number}")
        await sqlite_storage.write(advance, f"s{number}-k1", KernelStatus.SCHEDULED)
    seen = []
    for _ in range(4):
        await figures.count()
        seen.append(count(registry, "PENDING"))
    assert seen == [2, 4, 6, 6]


def test_rounds_of_the_scheduler_are_observed(registry: CollectorRegistry) -> None:
    figures = SchedulerFigures(registry)
    figures.observe(0.02, 17, [7.0, 0.25])
    assert registry.get_sample_value("wharfinger_scheduler_queue_length") == 17
    assert registry.get_sample_value("wharfinger_scheduler_round_seconds_count") == 1
    assert registry.get_sample_value("wharfinger_session_held_back_seconds_count") == 2
    assert registry.get_sample_value("wharfinger_session_held_back_seconds_sum") == 7.25
