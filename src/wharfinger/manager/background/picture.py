"""What a watcher has been shown of a task, and what is news to it. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from wharfinger.domain.states import ITEM_TRANSITIONS, TaskStatus
from wharfinger.manager.background import channels
from wharfinger.manager.background.port import Item, TaskEvent
from wharfinger.manager.background.reading import Reading
from wharfinger.manager.background.store import Progress
from wharfinger.manager.bus.port import Message

_KINDS: Final = {
    TaskStatus.SUCCEEDED: "bgtask_done",
    TaskStatus.PARTIALLY_SUCCEEDED: "bgtask_partial_success",
    TaskStatus.FAILED: "bgtask_failed",
    TaskStatus.CANCELLED: "bgtask_cancelled",
}


class Picture:
    """A task as the database told it, and the bus since. Numbers never fall in it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._epoch = reading.epoch
        self._event_id = f"{reading.epoch}-0"
        view = reading.view
        self._status = view.status
        self._progress = Progress(view.current, view.total, view.message)
        self._items = {_key(item): item for item in view.items}

    @property
    def ended(self) -> bool:
        """Whether the task has reached its end."""
        return self._reading.ended

    def continues(self, event_id: str | None) -> bool:
        """Whether who has seen that event needs only what was reported since: the task still
        goes on, in the same run."""
        return not self.ended and event_id is not None and _epoch(event_id) == self._epoch

    def read(self, reading: Reading) -> TaskEvent | None:
        """Look again: the end, or an update when there is more than the bus had told."""
        before = self._progress, self._status
        self._reading = reading
        self._epoch = max(self._epoch, reading.epoch)
        view = reading.view
        self._status = view.status
        if view.current >= self._progress.current or reading.ended:  # else the row lags behind
            self._go_on(Progress(view.current, view.total, view.message))
        changed = self._merge(view.items)
        if reading.ended:
            return self.whole()
        if not changed and before == (self._progress, self._status):
            return None
        return self._update(changed)

    def hear(self, message: Message) -> TaskEvent | None:
        """Take a report from the bus; None when it is none, or from a run that is over."""
        if message.kind != channels.UPDATED:
            return None
        epoch = _epoch(message.id)
        if epoch < self._epoch:
            return None
        self._epoch = epoch
        self._event_id = message.id
        data = message.data
        if not self.ended:
            self._status = TaskStatus.RUNNING
            self._go_on(Progress(data["current"], data["total"], data["message"]))
        self._merge(data["items"])
        return self._update([self._items[_key(item)] for item in data["items"]])

    def whole(self) -> TaskEvent:
        """All of it: the end, or the present state."""
        items = list(self._items.values())
        if self._reading.ended:
            return self._event(_KINDS[self._status], items)
        return self._update(items)

    def _update(self, items: Sequence[Item]) -> TaskEvent:
        return self._event(channels.UPDATED, items)

    def _event(self, kind: str, items: Sequence[Item]) -> TaskEvent:
        view = self._reading.view
        data: dict[str, Any] = {
            "task_id": view.id,
            "current_progress": self._progress.current,
            "total_progress": self._progress.total,
            "message": self._progress.message,
            "status": self._status.value,
            "failure": view.failure.to_json() if view.failure else None,
            "items": list(items),
        }
        return TaskEvent(self._event_id, kind, data)

    def _go_on(self, news: Progress) -> None:
        current = max(self._progress.current, news.current)
        self._progress = Progress(current, news.total, news.message)

    def _merge(self, news: Sequence[Item]) -> list[Item]:
        changed = []
        for item in news:
            key = _key(item)
            known = self._items.get(key)
            self._items[key] = newer(known, item) if known else item
            if self._items[key] != known:
                changed.append(self._items[key])
        return changed


def newer(known: Item, news: Item) -> Item:
    """What is known of an item after some news, which may have been overtaken on its way.

    An ended item does not go back, nor does one to an earlier attempt; bytes never fall.
    """
    ended = {known.get("status"), news.get("status")} & ITEM_TRANSITIONS.terminal
    overtaken = (ended and news.get("status") not in ended) or (
        news.get("attempts", 0) < known.get("attempts", 0)
    )
    if overtaken:
        return known
    merged = {**known, **news}
    if "bytesDone" in merged:
        merged["bytesDone"] = max(known.get("bytesDone", 0), news.get("bytesDone", 0))
    return merged


def _epoch(event_id: str) -> int:
    epoch = event_id.partition("-")[0]
    return int(epoch) if epoch.isdecimal() else 0


def _key(item: Item) -> tuple[str, str]:
    return item["agentId"], item["reference"]
