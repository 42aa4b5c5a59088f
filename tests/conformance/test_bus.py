"""The bus port: what every adapter does. Bounds are small here, so that they can be met."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from rig.redis import RedisProcess

from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.port import Bus, Message, SubscriberOverflow, Subscription
from wharfinger.manager.bus.redis import RedisBus
from wharfinger.manager.bus.redis_server import RedisServer

LIMIT = 16  # retained messages per channel, and waiting ones per subscriber
CHANNELS = 8  # with retained messages

pytestmark = pytest.mark.asyncio


@pytest.fixture(params=["memory", "redis", "valkey"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    if request.param == "memory":
        memory = MemoryBus(limit=LIMIT, retained_channels=CHANNELS)
        yield memory
        await memory.close()
        return
    running: RedisProcess = request.getfixturevalue(request.param)
    running.flush()
    server = RedisServer(running.url)
    bus = RedisBus(server, limit=LIMIT, retained_channels=CHANNELS)
    bus.start()
    yield bus
    await bus.close()
    await server.close()


def update(number: int, coalesce: str = "") -> Message:
    return Message(f"e-{number}", "updated", {"number": number}, coalesce)


async def publish(bus: Bus, channel: str, *numbers: int) -> None:
    for number in numbers:
        await bus.publish(channel, update(number))


async def take(subscription: Subscription, count: int) -> list[Message]:
    """The next messages, within five seconds."""
    messages: list[Message] = []
    async with asyncio.timeout(5):
        async for message in subscription:
            messages.append(message)
            if len(messages) == count:
                break
    return messages


async def numbers(subscription: Subscription, count: int) -> list[int]:
    return [message.data["number"] for message in await take(subscription, count)]


async def arrived(subscription: Subscription, number: int) -> None:
    """Return when this message has come to one subscriber: then it has come to all."""
    async with asyncio.timeout(5):
        async for message in subscription:
            if message.data["number"] == number:
                return


async def test_a_message_reaches_every_present_subscriber_whole_and_in_order(bus: Bus) -> None:
    sent = [update(1), Message("e-2", "done", {"nested": [1, {"a": None}]}, "c"), update(3)]
    async with bus.subscribe("tasks") as one, bus.subscribe("tasks") as two:
        for message in sent:
            await bus.publish("tasks", message)
        assert await take(one, 3) == sent
        assert await take(two, 3) == sent


async def test_a_subscription_stands_when_it_is_entered(bus: Bus) -> None:
    async with bus.subscribe("tasks") as subscription:
        await publish(bus, "tasks", 1)
        assert await numbers(subscription, 1) == [1]


async def test_a_subscriber_that_waits_is_woken(bus: Bus) -> None:
    async with bus.subscribe("tasks") as subscription, asyncio.TaskGroup() as group:
        waiting = group.create_task(numbers(subscription, 2))
        await publish(bus, "tasks", 1, 2)
    assert waiting.result() == [1, 2]


async def test_whoever_joins_in_between_hears_everything_from_then_on_once(bus: Bus) -> None:
    begun = ended = 0
    last = 60

    async def join() -> None:
        before = ended
        async with bus.subscribe("tasks") as subscription:
            after = begun
            heard: list[int] = []
            async for message in subscription:
                heard.append(message.data["number"])
                if heard[-1] == last:
                    break
        assert before <= heard[0] <= after
        assert heard == list(range(heard[0], last + 1))

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(last + 1):
            if number < last:
                group.create_task(join())
            begun = number + 1
            await publish(bus, "tasks", number)
            ended = number + 1
            await asyncio.sleep(0)  # on the memory bus nobody else would come to the turn


async def test_channels_do_not_hear_each_other(bus: Bus) -> None:
    async with bus.subscribe("tasks") as subscription:
        await publish(bus, "agents", 1)
        await publish(bus, "tasks", 2)
        assert await numbers(subscription, 1) == [2]


async def test_without_an_id_to_resume_from_nothing_old_comes(bus: Bus) -> None:
    await publish(bus, "tasks", 1)
    async with bus.subscribe("tasks") as subscription:
        assert not subscription.resumed
        await publish(bus, "tasks", 2)
        assert await numbers(subscription, 1) == [2]


async def test_who_resumes_gets_what_followed_and_then_what_is_new(bus: Bus) -> None:
    await publish(bus, "tasks", 1, 2, 3)
    async with bus.subscribe("tasks", after="e-1") as subscription:
        assert subscription.resumed
        await publish(bus, "tasks", 4)
        assert await numbers(subscription, 3) == [2, 3, 4]


async def test_who_resumes_from_the_last_message_missed_nothing(bus: Bus) -> None:
    await publish(bus, "tasks", 1)
    async with bus.subscribe("tasks", after="e-1") as subscription:
        assert subscription.resumed
        await publish(bus, "tasks", 2)
        assert await numbers(subscription, 1) == [2]


@pytest.mark.parametrize("unknown", ["e-99", "other-1", ""])
async def test_who_resumes_from_an_unknown_id_is_told_so(bus: Bus, unknown: str) -> None:
    await publish(bus, "tasks", 1)
    await bus.publish("tasks", Message("", "ring", {}))
    async with bus.subscribe("tasks", after=unknown) as subscription:
        assert not subscription.resumed
        await publish(bus, "tasks", 2)
        assert await numbers(subscription, 1) == [2]


async def test_an_id_that_was_trimmed_is_unknown(bus: Bus) -> None:
    await publish(bus, "tasks", *range(LIMIT + 1))
    async with bus.subscribe("tasks", after="e-0") as subscription:
        assert not subscription.resumed
    async with bus.subscribe("tasks", after="e-1") as subscription:
        assert subscription.resumed
        assert await numbers(subscription, LIMIT - 1) == list(range(2, LIMIT + 1))


async def test_channels_published_on_long_ago_are_forgotten(bus: Bus) -> None:
    await publish(bus, "first", 1, 2)
    await publish(bus, "second", 1, 2)
    for number in range(CHANNELS - 2):
        await publish(bus, f"other-{number}", 1)
    await publish(bus, "first", 3)
    await publish(bus, "one-more", 1)
    async with bus.subscribe("first", after="e-1") as first:
        assert await numbers(first, 2) == [2, 3]
    async with bus.subscribe("second", after="e-1") as second:
        assert not second.resumed


async def test_what_is_retained_can_be_read(bus: Bus) -> None:
    assert list(await bus.retained("tasks")) == []
    await publish(bus, "tasks", *range(LIMIT + 1))
    await publish(bus, "agents", 99)
    assert list(await bus.retained("tasks")) == [update(n) for n in range(1, LIMIT + 1)]


async def test_a_slow_subscriber_gets_only_the_newest_of_one_key(bus: Bus) -> None:
    async with bus.subscribe("tasks") as subscription, bus.subscribe("tasks") as other:
        for number in range(10 * LIMIT):
            await bus.publish("tasks", update(number, coalesce="progress"))
        await publish(bus, "tasks", 1_000)
        await arrived(other, 1_000)
        received = await numbers(subscription, 2)
    assert received == [10 * LIMIT - 1, 1_000]


async def test_coalescing_never_overtakes(bus: Bus) -> None:
    async with bus.subscribe("tasks") as subscription, bus.subscribe("tasks") as other:
        await bus.publish("tasks", update(1, coalesce="a"))
        await bus.publish("tasks", update(2, coalesce="b"))
        await bus.publish("tasks", update(3))
        await bus.publish("tasks", update(4, coalesce="a"))
        await arrived(other, 4)
        assert await numbers(subscription, 3) == [2, 3, 4]


async def test_a_subscriber_that_overflows_is_closed_and_told_so(bus: Bus) -> None:
    async with bus.subscribe("tasks") as slow, bus.subscribe("tasks") as quick:
        for number in range(LIMIT + 1):
            await publish(bus, "tasks", number)
            assert await numbers(quick, 1) == [number]
        with pytest.raises(SubscriberOverflow):
            await take(slow, LIMIT + 1)
        with pytest.raises(SubscriberOverflow):
            await take(slow, 1)


async def test_a_cancelled_wait_loses_nothing(bus: Bus) -> None:
    async with bus.subscribe("tasks") as subscription:
        messages = aiter(subscription)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(messages)
        await publish(bus, "tasks", 1, 2)
        assert await numbers(subscription, 2) == [1, 2]


async def test_who_left_hears_nothing_more(bus: Bus) -> None:
    async with bus.subscribe("tasks") as subscription:
        pass
    await publish(bus, "tasks", 1)
    assert await take(subscription, 1) == []


async def test_closing_ends_every_subscription(bus: Bus) -> None:
    async with bus.subscribe("tasks") as one, bus.subscribe("agents") as two:
        ends = asyncio.gather(take(one, 1), take(two, 1))
        await bus.close()
        assert [*await ends] == [[], []]


async def test_what_waits_is_still_delivered_after_closing(bus: Bus) -> None:
    async with bus.subscribe("tasks") as subscription:
        await publish(bus, "tasks", 1)
        await bus.close()
        assert await take(subscription, 2) == [update(1)]


async def test_a_closed_bus_is_silent(bus: Bus) -> None:
    await bus.close()
    await bus.close()
    async with bus.subscribe("tasks") as subscription:
        await publish(bus, "tasks", 1)
        assert await take(subscription, 1) == []
