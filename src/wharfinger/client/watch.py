"""The events of a background task."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from wharfinger.client.errors import NotAManager
from wharfinger.client.http import Client
from wharfinger.client.resume import OnOutage, resumed
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
    """The events of a task until its last one: see `resumed`, whose errors it raises."""
    parameters = {"task_id": task_id}
    async with aclosing(
        resumed(client, PATH, parameters, last=ENDS, on_outage=on_outage)
    ) as events:
        async for event in events:
            if event.name == UPDATED or event.name in ENDS:
                yield _parsed(client, event)


def _parsed(client: Client, event: Event) -> TaskEvent:
    try:
        return TaskEvent.parse(event)
    except ValueError as error:
        raise NotAManager(client.connection.url, str(error)) from error


def _key(item: Item) -> Any:
    return item["agentId"], item["reference"]
