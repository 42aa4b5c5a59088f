"""Progress of one run: often to the bus, seldom to the database, and the last of it to both."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog

from wharfinger.domain.errors import WharfingerError
from wharfinger.manager.background import channels
from wharfinger.manager.background.port import Item
from wharfinger.manager.background.store import Progress
from wharfinger.manager.bus.port import Message

log = structlog.get_logger()


class Reporter:
    """Coalesces what a body reports. `current` never falls.

    `publish` and `save` are called at most once per their period (seconds); what they cannot do at
    the moment is tried again after it.
    """

    def __init__(
        self,
        epoch: int,
        progress: Progress,
        *,
        publish: Callable[[Message], Awaitable[None]],
        publish_seconds: float,
        save: Callable[[Progress], Awaitable[None]],
        save_seconds: float,
    ) -> None:
        self.progress = progress
        self._epoch = epoch
        self._sequence = 0
        self._items: dict[tuple[str, str], Item] = {}
        self._unpublished = False
        self._publish_to = publish
        self._save_to = save
        self._publisher = _Paced(self._publish, publish_seconds)
        self._saver = _Paced(self._save, save_seconds)

    def update(
        self,
        *,
        current: int | None = None,
        maximum: int | None = None,
        message: str | None = None,
        items: Sequence[Item] = (),
    ) -> None:
        """Take a report; what is None stays as it was."""
        before = self.progress
        self.progress = Progress(
            max(before.current, current or 0),
            before.total if maximum is None else maximum,
            before.message if message is None else message,
        )
        self._items |= {(item["agentId"], item["reference"]): item for item in items}
        self._unpublished = True
        self._publisher.ring()
        self._saver.ring()

    def start(self) -> None:
        """Begin to pass on."""
        self._publisher.start()
        self._saver.start()

    async def close(self, *, flush: bool) -> None:
        """Pass on no more, after the last state when `flush`. The row's end is its run's."""
        await self._publisher.stop()
        await self._saver.stop()
        if flush and self._unpublished:
            with suppress(WharfingerError):
                await self._publish()

    async def _publish(self) -> None:
        self._sequence += 1
        items, self._items = self._items, {}
        self._unpublished = False
        message = Message(
            id=f"{self._epoch}-{self._sequence}",
            kind=channels.UPDATED,
            data={
                "current": self.progress.current,
                "total": self.progress.total,
                "message": self.progress.message,
                "items": list(items.values()),
            },
            coalesce="" if items else "progress",
        )
        try:
            await self._publish_to(message)
        except BaseException:
            self._items = items | self._items
            self._unpublished = True
            raise

    async def _save(self) -> None:
        await self._save_to(self.progress)


class _Paced:
    """Calls `action` soon after each `ring`, at most once per `period` seconds.

    No ring is lost: one that comes too early is answered late, one whose action failed, again.
    """

    def __init__(self, action: Callable[[], Awaitable[None]], period: float) -> None:
        self._action = action
        self._period = period
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def ring(self) -> None:
        self._bell.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            try:
                await self._action()
            except WharfingerError as error:
                self._bell.set()
                log.warning("progress is late", error=error.to_json())
            except Exception:
                log.exception("progress met a defect")
            await asyncio.sleep(self._period)
