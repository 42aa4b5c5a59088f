"""Watching a task: first what is, then what is new, and always the end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

import structlog

from wharfinger.manager.background import channels
from wharfinger.manager.background.picture import Picture
from wharfinger.manager.background.port import TaskEvent
from wharfinger.manager.background.reading import Reading
from wharfinger.manager.bus.port import Bus, Message, SubscriberOverflow

log = structlog.get_logger()

_TALKATIVE = 10
"""Of a bus that never falls silent something may have been lost as well."""


async def watch(
    task_id: str,
    *,
    read: Callable[[], Awaitable[Reading]],
    bus: Bus,
    last_event_id: str | None,
    reread_seconds: float,
) -> AsyncGenerator[TaskEvent, None]:
    """The events of a task up to its end, or until the bus is closed.

    The subscription stands before the row is read, so nothing falls between the two. When the bus
    says nothing for `reread_seconds` the row is read again, and from time to time however much it
    says: whatever the bus lost comes late, but it comes.
    """
    channel = channels.of_task(task_id)
    after = last_event_id
    while True:
        try:
            async with bus.subscribe(channel, after=after) as subscription:
                picture = Picture(await read())
                if not (subscription.resumed and picture.continues(after)):
                    for message in await bus.retained(channel):
                        picture.hear(message)
                    yield picture.whole()
                if picture.ended:
                    return
                async with _Patient(aiter(subscription), reread_seconds) as reports:
                    async for report in reports:
                        event = picture.hear(report) if report else picture.read(await read())
                        if event is not None:
                            yield event
                        if picture.ended:
                            return
                return
        except SubscriberOverflow:
            log.info("watcher was too slow, and gets the present state again", task=task_id)
            after = None


class _Patient:
    """Reports from the bus, with None wherever the database is to be asked: when the bus rang for
    the end, when it was silent for `seconds`, and after ten times that in any case.

    Cancelling `anext` may end an iterator, so a wait that was given up goes on behind.
    """

    def __init__(self, messages: AsyncIterator[Message], seconds: float) -> None:
        self._messages = messages
        self._seconds = seconds
        self._steady = asyncio.get_running_loop().time
        self._ask_at = self._steady() + _TALKATIVE * seconds
        self._waiting: asyncio.Future[Message | None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait({self._waiting})

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message | None:
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(anext(self._messages, None))
        await asyncio.wait({self._waiting}, timeout=self._seconds)
        if not self._waiting.done() or self._steady() > self._ask_at:
            self._ask_at = self._steady() + _TALKATIVE * self._seconds
            return None
        message = self._waiting.result()
        self._waiting = None
        if message is None:
            raise StopAsyncIteration
        return message if message.kind == channels.UPDATED else None
