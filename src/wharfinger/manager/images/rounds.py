"""What drives the items of a task: a round whenever something changed, and every second.

A round reads what is, changes what may change, and starts the calls that follow from it; nothing
is remembered between rounds that the database does not know, so another manager can go on at any
point. Losing a ring costs a second. When an item ends, or goes back to the queue, everybody is
rung: sessions and other tasks may wait for its preparation to be over. Between two rounds as much
time passes as the first took: a large fleet rings without end, and others want the database as
well.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from wharfinger.domain.errors import WharfingerError
from wharfinger.domain.states import ItemStatus
from wharfinger.manager.background.channels import ring as publish
from wharfinger.manager.background.port import LostTask, TaskRun
from wharfinger.manager.bus.follow import follow
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.errands import Errands
from wharfinger.manager.fleet.service import CHANGED, PROGRESS
from wharfinger.manager.images.board import Board
from wharfinger.manager.images.items import OPEN, ItemRow
from wharfinger.manager.storage.port import Storage

log = structlog.get_logger()

PERIOD = 1.0
"""Seconds between rounds when nothing rings."""


class Round(Protocol):
    """One look at a task: change what may change, start the errands that follow."""

    async def __call__(self, errands: Errands) -> Sequence[ItemRow]:
        """All items as they are now."""


class Rounds:
    """The rounds of one run of one task."""

    def __init__(self, run: TaskRun, storage: Storage, bus: Bus, board: Board) -> None:
        self._run = run
        self._storage = storage
        self._bus = bus
        self._board = board
        self._bell = asyncio.Event()
        self._statuses: dict[str, ItemStatus] = {}

    def ring(self) -> None:
        """Have a round soon."""
        self._bell.set()

    async def drive(self, once: Round) -> Sequence[ItemRow]:
        """Rounds until every item has ended; the items. Raises `LostTask`."""
        async with asyncio.TaskGroup() as group:
            watching = [
                group.create_task(follow(self._bus, CHANGED, self._heard_change)),
                group.create_task(follow(self._bus, PROGRESS, self._heard_progress)),
                group.create_task(self._heed_cancel()),
            ]
            errands = Errands(group.create_task)
            try:
                ended = await self._until_ended(once, errands)
            finally:
                errands.cancel()
                for task in watching:
                    task.cancel()
        if isinstance(ended, LostTask):
            raise ended
        return ended

    async def _until_ended(self, once: Round, errands: Errands) -> Sequence[ItemRow] | LostTask:
        """A lost task is returned: a task group would wrap what is raised in it."""
        while True:
            self._bell.clear()
            began = time.monotonic()
            try:
                items = await once(errands)
                await self._ring_others(items)
                self._board.place(items)
                await self._board.report(self._run)
                if not any(item.status in OPEN for item in items):
                    return items
                await self._board.keep(self._run, self._storage)
            except LostTask as error:
                return error
            except WharfingerError as error:
                log.warning("round failed once", task=self._run.task_id, error=error.to_json())
            await asyncio.sleep(min(time.monotonic() - began, PERIOD))
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD):
                    await self._bell.wait()

    async def _ring_others(self, items: Sequence[ItemRow]) -> None:
        before, self._statuses = self._statuses, {item.id: item.status for item in items}
        if any(
            item.status is not ItemStatus.RUNNING
            and item.status is not before.get(item.id, ItemStatus.QUEUED)
            for item in items
        ):
            await publish(self._bus, CHANGED, Message("", "changed", {}, "changed"))

    async def _heard_change(self, _: Message) -> None:
        self._bell.set()

    async def _heard_progress(self, message: Message) -> None:
        if self._board.note(message.data["progress"]):
            await self._board.report(self._run)

    async def _heed_cancel(self) -> None:
        await self._run.wait_cancel_requested()
        self._bell.set()
