"""The events of a background task, through cut connections and restarted managers."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from wharfinger.client.errors import ConnectionLost, NotAManager, ServerUnreachable
from wharfinger.client.http import Client
from wharfinger.client.shapes import Item, Progress, Task
from wharfinger.client.sse import Event

PATH: Final = "/background-tasks"
UPDATED: Final = "bgtask_updated"
ENDS: Final = {
    "bgtask_done": "succeeded",
    "bgtask_partial_success": "partially_succeeded",
    "bgtask_failed": "failed",
    "bgtask_cancelled": "cancelled",
}
"""What each last event means for the task's status."""

PATIENCE_SECONDS: Final = 120.0
"""How long a manager may be away before a watcher gives up."""
_LONGEST_WAIT: Final = 5.0
_STEADY_SECONDS: Final = 10.0
"""A stream that stayed open that long was contact, even if there was nothing to tell."""

OnOutage = Callable[[ServerUnreachable], None]


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """What a watcher is told. `items` are those that changed; all of them in a snapshot."""

    kind: str
    current: int
    total: int
    message: str
    items: tuple[Item, ...]

    @property
    def last(self) -> bool:
        """Whether the task has ended."""
        return self.kind in ENDS

    @classmethod
    def parse(cls, event: Event) -> "TaskEvent":
        """From an event of the stream; raises `ValueError` for one that is not of a task."""
        match json.loads(event.data):
            case {
                "current_progress": int(current),
                "total_progress": int(total),
                "message": message,
                "items": [*items],
            }:
                return cls(event.name, current, total, message or "", tuple(items))
            case _:
                raise ValueError(f"the data of {event.name} is not of a task")

    def apply(self, task: Task) -> Task:
        """The task as it is after this event."""
        changed = {_key(item): item for item in self.items}
        items = [changed.pop(_key(item), item) for item in task["items"]]
        progress = Progress(current=self.current, total=self.total, unit=task["progress"]["unit"])
        status = ENDS.get(self.kind, "running")
        return {
            **task,
            "status": status,
            "progress": progress,
            "message": self.message,
            "items": [*items, *changed.values()],
        }


async def watch_task(
    client: Client, task_id: str, *, on_outage: OnOutage | None = None
) -> AsyncGenerator[TaskEvent]:
    """The events of a task until its last one. Close it (`contextlib.aclosing`).

    A stream that breaks is taken up after the last event seen, or from a snapshot where the
    manager cannot; `on_outage` hears of it. Raises `ServerUnreachable` when the manager was never
    reached or stays away longer than `PATIENCE_SECONDS`, and `RemoteError` for a refusal.
    """
    clock = asyncio.get_running_loop().time
    last_id = ""
    reached = False
    away_since: float | None = None
    waits = _waits()
    while True:
        opened_at: float | None = None
        try:
            async with client.events(PATH, {"task_id": task_id}, last_event_id=last_id) as events:
                reached, opened_at = True, clock()
                async for event in events:
                    last_id, away_since, waits = event.id, None, _waits()
                    if event.name != UPDATED and event.name not in ENDS:
                        continue
                    update = _parsed(client, event)
                    yield update
                    if update.last:
                        return
            outage: ServerUnreachable = ConnectionLost("the stream ended before the task did")
        except ServerUnreachable as error:
            outage = error
        now = clock()
        was_steady = opened_at is not None and now - opened_at > _STEADY_SECONDS
        if away_since is None or was_steady:
            away_since = now
        if not reached or now - away_since > PATIENCE_SECONDS:
            raise outage
        if on_outage:
            on_outage(outage)
        await asyncio.sleep(next(waits))


def _waits() -> Iterator[float]:
    wait = 0.1
    while True:
        yield wait
        wait = min(wait * 2, _LONGEST_WAIT)


def _parsed(client: Client, event: Event) -> TaskEvent:
    try:
        return TaskEvent.parse(event)
    except ValueError as error:
        raise NotAManager(client.connection.url, str(error)) from error


def _key(item: Item) -> Any:
    return item["agentId"], item["reference"]
