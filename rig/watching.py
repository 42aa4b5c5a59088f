"""A task's event stream, read as curl would show it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from rig.server import Server


@dataclass(frozen=True)
class Seen:
    """One event of the stream."""

    id: str
    kind: str
    data: dict[str, Any]


def watch(server: Server, task_id: str, *, last_event_id: str | None = None) -> Iterator[Seen]:
    """The events of `GET /background-tasks`, until the server closes the stream."""
    headers = {"Authorization": f"Bearer {server.token}"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    url = f"{server.url}/background-tasks"
    with httpx2.stream(
        "GET", url, params={"task_id": task_id}, headers=headers, timeout=60
    ) as response:
        response.raise_for_status()
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
            elif "data" in fields:
                yield Seen(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
                fields = {}
