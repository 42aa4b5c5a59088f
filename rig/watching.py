"""A task's event stream, read as curl would show it."""

from collections.abc import Iterator

import httpx2

from rig.server import Server
from rig.sse import Event, Lines


def watch(server: Server, task_id: str, *, last_event_id: str | None = None) -> Iterator[Event]:
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
