"""Listening to a channel for as long as one lives."""

from collections.abc import Awaitable, Callable

import structlog

from wharfinger.manager.bus.port import Bus, Message, SubscriberOverflow

log = structlog.get_logger()


async def follow(bus: Bus, channel: str, handle: Callable[[Message], Awaitable[None]]) -> None:
    """Hand every message to `handle`, subscribing anew when this listener was too slow.

    What was missed meanwhile is missed: the database knows. Returns when the bus closes.
    """
    while True:
        try:
            async with bus.subscribe(channel) as subscription:
                async for message in subscription:
                    await handle(message)
                return
        except SubscriberOverflow:
            log.warning("listener too slow", channel=channel)
