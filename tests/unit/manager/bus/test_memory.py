"""The memory bus: how long it retains, and that its order is right whatever is published."""

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.port import Message

keys = st.sampled_from(["", "a", "b"])


async def test_a_message_is_retained_for_a_while() -> None:
    at = 0.0
    bus = MemoryBus(retained_seconds=60, clock=lambda: at)
    await bus.publish("tasks", Message("e-1", "updated", {}))
    at = 60.0
    async with bus.subscribe("tasks", after="e-1") as subscription:
        assert subscription.resumed
    await bus.publish("tasks", Message("e-2", "updated", {}))
    at = 60.1
    async with bus.subscribe("tasks", after="e-1") as subscription:
        assert not subscription.resumed
    async with bus.subscribe("tasks", after="e-2") as subscription:
        assert subscription.resumed


@given(st.lists(keys, max_size=30))
async def test_who_reads_late_gets_the_last_of_each_key_in_order(published: list[str]) -> None:
    bus = MemoryBus()
    messages = [Message(str(n), "updated", {}, key) for n, key in enumerate(published)]
    async with bus.subscribe("tasks") as subscription:
        for message in messages:
            await bus.publish("tasks", message)
        await bus.close()
        received = [message async for message in subscription]
    last = {message.coalesce: message for message in messages}
    assert received == [m for m in messages if not m.coalesce or last[m.coalesce] is m]
