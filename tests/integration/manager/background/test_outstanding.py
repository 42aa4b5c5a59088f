"""What others read of outstanding tasks, in a real Redis."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from rig.redis import RedisProcess
from rig.tasks import BRISK, DOZING, Work, end_of, eventually, no_items, start_named

from wharfinger.manager.background.outstanding import RedisOutstanding, key_of
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.redis_server import RedisServer
from wharfinger.manager.storage.port import Storage

WAITS = {"download": {"rescan"}, "rescan": {"download"}}

SHORT = replace(BRISK, lease=1.0, renew=0.1, take_over=3600.0)
"""What no one keeps alive is gone within a second."""

Make = Callable[..., Awaitable[BackgroundTasks]]


@pytest.fixture
def process(redis: RedisProcess) -> Iterator[RedisProcess]:
    redis.flush()
    yield redis
    if not redis.running:
        redis.start()


@pytest.fixture
async def mirror(process: RedisProcess) -> AsyncIterator[RedisOutstanding]:
    server = RedisServer(process.url)
    yield RedisOutstanding(server)
    await server.close()


@pytest.fixture
async def make(
    sqlite_storage: Storage, bus: MemoryBus, mirror: RedisOutstanding
) -> AsyncIterator[Make]:
    """Makes started managers that download and rescan by this work; all are stopped."""
    made: list[BackgroundTasks] = []

    async def one(work: Work, timing: Timing = SHORT) -> BackgroundTasks:
        tasks = BackgroundTasks(sqlite_storage, bus, timing=timing, waits=WAITS, mirror=mirror)
        for category in WAITS:
            tasks.register(category, work.function, no_items, category)
        tasks.register("other", work.function, no_items)
        made.append(tasks)
        await tasks.start()
        return tasks

    yield one
    for tasks in made:
        await tasks.stop()


def members(process: RedisProcess, category: str) -> list[str]:
    found: list[str] = process.ask("ZRANGE", key_of(category), "0", "-1")
    return found


async def mirrored(process: RedisProcess, **expected: list[str]) -> None:
    """Return once the sets are these."""

    async def so() -> bool:
        return all(sorted(members(process, name)) == sorted(ids) for name, ids in expected.items())

    await eventually(so)


async def test_it_holds_what_runs_and_what_waits_until_its_end(
    make: Make, process: RedisProcess, sqlite_storage: Storage
) -> None:
    work = Work()
    tasks = await make(work)
    download = await start_named(tasks, sqlite_storage, "download")
    rescan = await start_named(tasks, sqlite_storage, "rescan")
    await start_named(tasks, sqlite_storage, "other")
    await mirrored(process, download=[download], rescan=[rescan])
    assert len(process.ask("KEYS", "wharfinger:outstanding:*")) == 2
    work.end()
    await end_of(tasks, rescan)
    await mirrored(process, download=[], rescan=[])


async def test_a_cancelled_task_leaves_it_at_once(
    make: Make, process: RedisProcess, sqlite_storage: Storage
) -> None:
    work = Work()
    tasks = await make(work, timing=replace(SHORT, lease=60.0))
    running = await start_named(tasks, sqlite_storage, "download")
    waiting = await start_named(tasks, sqlite_storage, "rescan")
    await mirrored(process, download=[running], rescan=[waiting])
    await tasks.cancel(waiting, by="ada")
    await mirrored(process, download=[running], rescan=[])
    await tasks.cancel(running, by="ada")
    await mirrored(process, download=[])


async def test_it_is_kept_alive_for_as_long_as_the_task_runs(
    make: Make, process: RedisProcess, sqlite_storage: Storage
) -> None:
    work = Work()
    tasks = await make(work)
    task_id = await start_named(tasks, sqlite_storage, "download")
    await mirrored(process, download=[task_id])
    first = float(process.ask("ZSCORE", key_of("download"), task_id))

    async def later_than_that() -> bool:
        return float(process.ask("ZSCORE", key_of("download"), task_id)) > first + SHORT.lease

    await eventually(later_than_that)
    work.end()


async def test_it_is_gone_with_its_holder_and_back_with_the_next(
    make: Make, process: RedisProcess, sqlite_storage: Storage
) -> None:
    before, after = Work(), Work()
    dying = await make(before, timing=replace(DOZING, lease=0.5))
    task_id = await start_named(dying, sqlite_storage, "download")
    await mirrored(process, download=[task_id])
    await mirrored(process, download=[])
    other = await make(after)

    async def taken() -> bool:  # the lease in the database may end a moment later than the mirror's
        await other.launch(task_id)
        return after.begun.is_set()

    await eventually(taken)
    await mirrored(process, download=[task_id])
    after.end()
    await mirrored(process, download=[])


async def test_it_is_filled_again_after_the_server_forgot_everything(
    make: Make, process: RedisProcess, sqlite_storage: Storage
) -> None:
    tasks = await make(Work())
    task_id = await start_named(tasks, sqlite_storage, "download")
    await mirrored(process, download=[task_id])
    process.flush()
    await mirrored(process, download=[task_id])


async def test_tasks_do_not_need_it(
    make: Make, process: RedisProcess, sqlite_storage: Storage
) -> None:
    process.kill()
    work = Work()
    tasks = await make(work)
    task_id = await start_named(tasks, sqlite_storage, "download")
    work.end()
    async with asyncio.timeout(5):
        await end_of(tasks, task_id)
