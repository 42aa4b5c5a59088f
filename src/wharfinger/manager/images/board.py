"""The live numbers of a task's items: what its rows say, overlaid with what agents report."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from wharfinger.contracts.ingest import AttemptProgress
from wharfinger.domain.states import ItemStatus
from wharfinger.manager.background.holding import hold
from wharfinger.manager.background.port import Item, TaskRun
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import ItemRow
from wharfinger.manager.storage.port import Storage

_KEEP_EVERY = 2.0
"""Seconds between two writings of live numbers to the rows."""


@dataclass(slots=True)
class _Live:
    row: ItemRow
    shown: Item | None = None
    rate: float | None = None
    eta: float | None = None
    told: bool = False
    kept: bool = True


class Board:
    """Bytes per item, never falling, and what changed since the last report.

    A task counts bytes, or (not `count_bytes`) the items that ended.
    """

    def __init__(
        self, *, count_bytes: bool, steady_clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count_bytes = count_bytes
        self._steady = steady_clock
        self._items: dict[str, _Live] = {}
        self._attempts: dict[str, str] = {}
        self._kept_at = 0.0

    def place(self, items: Sequence[ItemRow]) -> None:
        """What the rows say now."""
        for row in items:
            live = self._items.setdefault(row.id, _Live(row))
            goes_on = ItemStatus.RUNNING is row.status is live.row.status
            if not goes_on:
                live.rate = live.eta = None
            live.row = replace(
                row,
                phase=live.row.phase if goes_on else row.phase,
                bytes_done=max(row.bytes_done, live.row.bytes_done),
            )
            live.told = False

    def expect(self, attempts: Mapping[str, str]) -> None:
        """The open attempts, as {attempt id: item id}: progress of others is dropped."""
        self._attempts = dict(attempts)

    def note(self, progress: Sequence[Mapping[str, Any]]) -> bool:
        """Take in what an agent reports; whether any of it is this task's."""
        ours = False
        for entry in progress:
            live = self._items.get(self._attempts.get(entry["attemptId"], ""))
            if live is None or live.row.status is not ItemStatus.RUNNING:
                continue
            said = AttemptProgress.model_validate(entry)
            below_total = max(live.row.bytes_total - 1, 0)
            live.row = replace(
                live.row,
                phase=said.phase,
                bytes_done=max(live.row.bytes_done, min(said.bytes_done, below_total)),
            )
            live.rate, live.eta = said.bytes_per_second, said.eta_seconds
            live.told = live.kept = False
            ours = True
        return ours

    async def report(self, run: TaskRun) -> None:
        """Tell the task's watchers what changed."""
        changed = []
        for live in self._items.values():
            if live.told:
                continue
            live.told = True
            shown = live.row.to_json(rate=live.rate, eta=live.eta)
            if shown != live.shown:
                live.shown = shown
                changed.append(shown)
        if changed:
            current, total = self._counts()
            await run(current=current, maximum=total, message=self._message(), items=changed)

    async def keep(self, run: TaskRun, storage: Storage) -> None:
        """Write live numbers to the rows, now and then, for those who come late."""
        if self._steady() - self._kept_at < _KEEP_EVERY:
            return
        self._kept_at = self._steady()
        unkept = [live for live in self._items.values() if not live.kept]
        if unkept:
            for live in unkept:
                live.kept = True
            await storage.write(
                _keep, run.task_id, run.epoch, [(live.row, live.eta) for live in unkept]
            )

    def _counts(self) -> tuple[int, int]:
        every = [live.row for live in self._items.values()]
        if self._count_bytes:
            return sum(r.bytes_done for r in every), sum(r.bytes_total for r in every)
        return sum(row.status not in rows.OPEN for row in every), len(every)

    def _message(self) -> str:
        every = [live.row.status for live in self._items.values()]
        ended = sum(status not in rows.OPEN for status in every)
        return f"{ended} of {len(every)} ended"


def _keep(
    conn: Connection, task_id: str, epoch: int, live: Sequence[tuple[ItemRow, float | None]]
) -> None:
    hold(conn, task_id, epoch)
    for row, eta in live:
        rows.note_progress(conn, row.id, row.phase, row.bytes_done, eta)
