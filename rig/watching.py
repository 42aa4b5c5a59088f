"""A task's event stream, read as curl would show it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from rig.production import OneManager
from rig.server import Server
from rig.sse import Event, Lines


@contextmanager
def watching(server: Server | OneManager, task_id: str) -> Iterator[list[Event]]:
    """A task's events, growing while the context is open; left when the stream has ended."""
    events: list[Event] = []
    thread = threading.Thread(target=lambda: events.extend(watch(server, task_id)))
    thread.start()
    try:
        yield events
    finally:
        thread.join()


def watch(
    server: Server | OneManager, task_id: str, *, last_event_id: str | None = None
) -> Iterator[Event]:
    """The events of `GET /background-tasks`, until the server closes the stream."""
    headers = {"Authorization": f"Bearer {server.token}"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    url = f"{server.url}/background-tasks"
    with httpx2.stream(
        "GET", url, params={"task_id": task_id}, headers=headers, timeout=60
    ) as response:
        response.raise_for_status()
        read = Lines()
        for line in response.iter_lines():
            event = read.take(line)
            if event is not None and event.kind:
                yield event
