"""The bus over a server that is away, restarted, flushed or frozen: slower, never wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import structlog
from rig.redis import RedisProcess
from rig.tasks import eventually, within

from wharfinger.manager.bus.port import Message, Subscription
from wharfinger.manager.bus.redis import RedisBus
from wharfinger.manager.bus.redis_server import RedisServer

Make = Callable[[], RedisBus]

PATIENCE = 0.3


@pytest.fixture
def process(redis: RedisProcess) -> Iterator[RedisProcess]:
    """Empty before, and there again afterwards, whatever a test did to it."""
    redis.flush()
    yield redis
    redis.thaw()
    if not redis.running:
        redis.start()


@pytest.fixture
async def make(process: RedisProcess) -> AsyncIterator[Make]:
    """Makes buses of managers; all are closed at the end."""
    made: list[tuple[RedisBus, RedisServer]] = []

    def one() -> RedisBus:
        server = RedisServer(process.url, patience=PATIENCE)
        bus = RedisBus(server)
        bus.start()
        made.append((bus, server))
        return bus

    yield one
    for bus, server in made:
        await bus.close()
        await server.close()


def numbered(number: int) -> Message:
    return Message(f"1-{number}", "updated", {"number": number})


async def heard(subscription: Subscription) -> int:
    return int((await within(anext(aiter(subscription)))).data["number"])


async def passes(here: RedisBus, there: Subscription, *, number: int = 100) -> None:
    """Return once what is published here is heard there."""

    async def once() -> bool:
        await here.publish("tasks", numbered(number))
        try:
            async with asyncio.timeout(0.1):
                return bool((await anext(aiter(there))).data["number"] == number)
        except TimeoutError:
            return False

    await eventually(once)


async def test_what_one_manager_says_the_other_hears(make: Make) -> None:
    here, there = make(), make()
    async with there.subscribe("tasks") as subscription:
        for number in range(20):
            await here.publish("tasks", numbered(number))
        assert [await heard(subscription) for _ in range(20)] == list(range(20))
        assert [message.id for message in await there.retained("tasks")][-1] == "1-19"
    async with there.subscribe("tasks", after="1-18") as resumed:
        assert resumed.resumed
        assert await heard(resumed) == 19


async def test_however_many_listen_one_connection_reads(make: Make, process: RedisProcess) -> None:
    bus = make()
    async with (
        bus.subscribe("one") as one,
        bus.subscribe("two") as two,
        bus.subscribe("two") as three,
    ):
        await bus.publish("one", numbered(1))
        await bus.publish("two", numbered(2))
        assert [await heard(who) for who in (one, two, three)] == [1, 2, 2]
        assert process.ask("INFO", "clients")["blocked_clients"] == 1


async def test_who_listens_survives_a_restart_and_hears_what_is_said_after_it(
    make: Make, process: RedisProcess
) -> None:
    here, there = make(), make()
    async with there.subscribe("tasks") as subscription:
        await here.publish("tasks", numbered(1))
        assert await heard(subscription) == 1
        process.kill()
        await here.publish("tasks", numbered(2))
        process.start()
        await passes(here, subscription)
        assert await there.retained("tasks") != []


async def test_who_resumes_from_what_a_restart_forgot_is_told_so(
    make: Make, process: RedisProcess
) -> None:
    here, there = make(), make()
    await here.publish("tasks", numbered(1))
    process.kill()
    process.start()
    async with there.subscribe("tasks", after="1-1") as subscription:
        assert not subscription.resumed
        await passes(here, subscription)


async def test_who_listens_survives_a_flush(make: Make, process: RedisProcess) -> None:
    here, there = make(), make()
    async with there.subscribe("tasks") as subscription:
        await here.publish("tasks", numbered(1))
        assert await heard(subscription) == 1
        process.flush()
        await here.publish("tasks", numbered(2))
        assert await heard(subscription) == 2


async def test_a_frozen_server_holds_nobody_up_for_long_and_is_used_again(
    make: Make, process: RedisProcess
) -> None:
    here, there = make(), make()
    async with there.subscribe("tasks") as subscription:
        await passes(here, subscription)
        process.freeze()
        begun = asyncio.get_running_loop().time()
        for number in range(50):
            await here.publish("tasks", numbered(number))
        assert asyncio.get_running_loop().time() - begun < 3 * PATIENCE
        process.thaw()
        await passes(here, subscription)


async def test_within_one_manager_all_goes_on_while_the_server_is_away(
    make: Make, process: RedisProcess
) -> None:
    process.kill()
    bus = make()
    async with bus.subscribe("tasks") as subscription:
        assert not subscription.resumed
        await bus.publish("tasks", numbered(1))
        assert await heard(subscription) == 1
        assert await bus.retained("tasks") == []


async def test_who_began_to_listen_while_it_was_away_hears_all_that_is_said_later(
    make: Make, process: RedisProcess
) -> None:
    process.kill()
    here, there = make(), make()
    async with there.subscribe("tasks") as subscription:
        process.start()
        await passes(here, subscription)
        await here.publish("tasks", numbered(101))
        assert await heard(subscription) == 101


async def test_an_outage_is_logged_once(make: Make, process: RedisProcess) -> None:
    with structlog.testing.capture_logs() as logs:
        bus = make()
        async with bus.subscribe("tasks") as subscription:
            await passes(bus, subscription)
            process.kill()
            for number in range(20):
                await bus.publish("tasks", numbered(number))
            process.start()

            async def back() -> bool:
                return bool(logs[-1]["event"] == "redis is back")

            await eventually(back)
    assert [entry["event"] for entry in logs] == [
        "redis is away; what it would have passed on comes late",
        "redis is back",
    ]


@pytest.mark.parametrize("fault", ["none", "killed", "frozen"])
async def test_closing_takes_less_than_a_second(
    make: Make, process: RedisProcess, fault: str
) -> None:
    bus = make()
    async with bus.subscribe("tasks") as subscription:
        await passes(bus, subscription)
        match fault:
            case "killed":
                process.kill()
            case "frozen":
                process.freeze()
        async with asyncio.timeout(1):
            await bus.close()
        assert [message async for message in subscription] == []


async def test_everything_it_keeps_expires(make: Make, process: RedisProcess) -> None:
    bus = make()
    async with bus.subscribe("tasks") as subscription:
        await passes(bus, subscription)
    kept = process.ask("KEYS", "*")
    assert kept
    assert all(process.ask("PTTL", key) > 0 for key in kept)


async def test_what_another_version_wrote_is_passed_over(make: Make, process: RedisProcess) -> None:
    bus = make()
    async with bus.subscribe("tasks") as subscription:
        await passes(bus, subscription)
        process.ask("XADD", "wharfinger:bus:tasks", "*", "other", "thing")
        process.ask("XADD", "wharfinger:bus:tasks", "*", "message", "{}")
        await bus.publish("tasks", numbered(7))
        assert await heard(subscription) == 7


async def test_it_shows_its_password_and_never_logs_it(process: RedisProcess) -> None:
    process.ask("CONFIG", "SET", "requirepass", "hunter2")
    with structlog.testing.capture_logs() as logs:
        for shown, there in (("hunter2", True), ("hunter3", False)):
            server = RedisServer(process.url.replace("://", f"://:{shown}@"), patience=PATIENCE)
            bus = RedisBus(server)
            bus.start()
            await bus.publish("tasks", numbered(1))
            assert bool(await bus.retained("tasks")) is there
            await bus.close()
            await server.close()
    process.kill()
    assert len(logs) == 1
    assert "hunter" not in str(logs)
