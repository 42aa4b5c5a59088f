#!/usr/bin/env python3
"""How many kernels the dispatcher binds in a second, on one core.

    benchmarks/scheduler.py                          SQLite in a temporary folder
    benchmarks/scheduler.py --json PATH              the figures as a document, too
    benchmarks/scheduler.py --database-url URL       an empty PostgreSQL database; it is filled

10,000 single-kernel sessions of 100 users wait; one round of the real dispatcher binds all of them.
The agents have the same slots in all, however many they are: what grows is only their number. Every
repetition begins with a fresh database. Agents are rows: nothing is called.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from rig.queues import hold_image, insert_host, insert_image, insert_sessions, insert_user
from sqlalchemy import Connection, create_engine, func, select, text

from wharfinger.domain.slots import Quota, Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.scheduler.dispatcher import Dispatcher
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.migrate import migrate
from wharfinger.manager.storage.opening import database_url, open_storage

GIB: Final = 2**30
GOAL: Final = 5_000
"""Bindings per second among a thousand agents."""

SESSIONS: Final = 10_000
USERS: Final = 100
IMAGES: Final = 20
HELD_BY: Final = 3
"""Every which agent holds an image."""

KERNELS: Final = (
    Slots(500, 1 * GIB),
    Slots(1_000, 2 * GIB),
    Slots(2_000, 8 * GIB),
    Slots(4_000, 16 * GIB),
    Slots(4_000, 32 * GIB, 1),
)
AGENTS: Final = (
    Slots(16_000, 64 * GIB),
    Slots(32_000, 128 * GIB),
    Slots(64_000, 256 * GIB, 4),
    Slots(96_000, 512 * GIB, 8),
)
"""Of a thousand; of fewer each has as much more."""


def main() -> None:
    """Measure, print a table, write the document."""
    options = _options()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    results = []
    print(f"{SESSIONS} pending sessions, {USERS} users, one core; bindings per second")
    print(f"{'agents':>8} {'median s':>9} {'bound/s':>9}   repetitions, s")
    for agents in options.agents:
        seconds = [_repetition(options.database_url, agents) for _ in range(options.repetitions)]
        median = statistics.median(seconds)
        results.append(
            {
                "agents": agents,
                "seconds": seconds,
                "medianSeconds": median,
                "bindingsPerSecond": SESSIONS / median,
            }
        )
        told = " ".join(f"{each:.2f}" for each in seconds)
        print(f"{agents:>8} {median:>9.2f} {SESSIONS / median:>9.0f}   {told}")
    print(f"goal: {GOAL} with 1000 agents")
    if options.json:
        document = {"pending": SESSIONS, "users": USERS, "goal": GOAL, "results": results}
        options.json.write_text(json.dumps(document, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agents", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--database-url", help="an empty PostgreSQL database")
    parser.add_argument("--json", type=Path, metavar="PATH")
    return parser.parse_args()


def _repetition(url: str | None, agents: int) -> float:
    with _database(url) as fresh:
        return asyncio.run(_measure(fresh, agents))


@contextmanager
def _database(url: str | None) -> Iterator[str]:
    if url is not None:
        engine = create_engine(database_url(url))
        with engine.begin() as conn:
            conn.execute(text("DROP SCHEMA public CASCADE"))
            conn.execute(text("CREATE SCHEMA public"))
        engine.dispose()
        migrate(url)
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="wharfinger-benchmark-") as folder:
        fresh = f"sqlite:///{folder}/database"
        migrate(fresh)
        yield fresh


async def _measure(url: str, agents: int) -> float:
    storage, bus = open_storage(url), MemoryBus()
    try:
        await storage.write(_fill, agents)
        dispatcher = Dispatcher(storage, bus, by="benchmark")
        began = time.perf_counter()
        bound = await dispatcher.run_once()
        seconds = time.perf_counter() - began
        scheduled = await storage.read(_scheduled)
    finally:
        await bus.close()
        await storage.close()
    if not bound == scheduled == SESSIONS:
        sys.exit(f"{scheduled} of {SESSIONS} were bound")
    return seconds


def _fill(conn: Connection, agents: int) -> None:
    images = [f"sha256:{number:064x}" for number in range(IMAGES)]
    for digest in images:
        insert_image(conn, digest, platforms=("linux/amd64", "linux/arm64"))
    for number in range(USERS):
        insert_user(conn, f"user-{number}", Quota(cpu=10**7), max_sessions=SESSIONS)
    for number in range(agents):
        agent_id = f"agent-{number:04}"
        insert_host(conn, agent_id, _times(AGENTS[number % len(AGENTS)], 1000 / agents))
        for place, digest in enumerate(images):
            if (number + place) % HELD_BY == 0:
                hold_image(conn, agent_id, digest)
    insert_sessions(conn, (_session(number, images) for number in range(SESSIONS)))


def _session(
    number: int, images: list[str]
) -> tuple[str, str, list[dict[str, Any]], dict[str, Any]]:
    kernel = {
        "slots": KERNELS[number % len(KERNELS)],
        "root_digest": images[number // 7 % len(images)],
    }
    return f"{number:016x}", f"user-{number % USERS}", [kernel], {}


def _times(slots: Slots, factor: float) -> Slots:
    return Slots(round(slots.cpu * factor), round(slots.mem * factor), round(slots.gpu * factor))


def _scheduled(conn: Connection) -> int:
    kernels = tables.kernels
    query = select(func.count()).where(kernels.c.status == KernelStatus.SCHEDULED)
    return conn.scalar(query) or 0


if __name__ == "__main__":
    main()
