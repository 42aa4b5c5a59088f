import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.port import Message
from wharfinger.manager.fleet.service import PROGRESS
from wharfinger.manager.sessions import live
from wharfinger.manager.sessions.live import LivePulls


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def report(*entries: dict[str, Any]) -> Message:
    return Message("", "progress", {"progress": list(entries)})


def entry(attempt_id: str, done: int, total: int = 100) -> dict[str, Any]:
    return {
        "attemptId": attempt_id,
        "phase": "downloading",
        "bytesDone": done,
        "bytesTotal": total,
        "bytesPerSecond": 5.0,
        "etaSeconds": 2.0,
    }


async def test_the_last_figures_of_the_attempts_asked_for_are_given() -> None:
    pulls = LivePulls(MemoryBus())
    await pulls.hear(report(entry("a", 10), entry("b", 20)))
    await pulls.hear(report(entry("a", 30)))
    found = pulls.figures(["a", "c"])
    assert list(found) == ["a"]
    assert found["a"].to_json() == {
        "phase": "downloading",
        "bytesDone": 30,
        "bytesTotal": 100,
        "bytesPerSecond": 5.0,
        "etaSeconds": 2.0,
    }


@given(st.lists(st.integers(0, 200)))
def test_bytes_never_fall_and_stay_below_the_total(told: list[int]) -> None:
    async def shown() -> list[int]:
        pulls = LivePulls(MemoryBus())
        seen = []
        for done in told:
            await pulls.hear(report(entry("a", done)))
            seen.append(pulls.figures(["a"])["a"].bytes_done)
        return seen

    seen = asyncio.run(shown())
    assert seen == sorted(seen)
    assert all(done < 100 for done in seen)


async def test_figures_without_news_are_forgotten() -> None:
    clock = Clock()
    pulls = LivePulls(MemoryBus(), steady_clock=clock)
    await pulls.hear(report(entry("a", 10)))
    clock.at = 40.0
    await pulls.hear(report(entry("b", 10)))
    clock.at = 61.0
    assert list(pulls.figures(["a", "b"])) == ["b"]


async def test_only_so_many_are_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(live, "MOST", 3)
    pulls = LivePulls(MemoryBus())
    await pulls.hear(report(*(entry(name, 1) for name in "abcd")))
    assert list(pulls.figures("abcd")) == ["b", "c", "d"]


async def test_what_is_no_progress_is_passed_over() -> None:
    pulls = LivePulls(MemoryBus())
    await pulls.hear(report({"attemptId": "a"}, entry("b", 1)))
    assert list(pulls.figures(["a", "b"])) == ["b"]


async def test_it_follows_the_bus_until_stopped() -> None:
    bus = MemoryBus()
    pulls = LivePulls(bus)
    await pulls.stop()
    pulls.start()
    async with asyncio.timeout(10):
        while not pulls.figures(["a"]):
            await bus.publish(PROGRESS, report(entry("a", 10)))
            await asyncio.sleep(0)
    await pulls.stop()
    await pulls.stop()
