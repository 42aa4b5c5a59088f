"""A reader of Server-Sent Events, for tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True)
class Event:
    """One event; `kind` is empty for a comment, whose text is then `data`."""

    kind: str
    id: str
    data: Any


class Lines:
    """Makes events of a stream's lines."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def take(self, line: str) -> Event | None:
        """The event or comment that ends with this line."""
        if line.startswith(":"):
            return Event("", "", line[1:].strip())
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.strip()
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return Event(fields["event"], fields.get("id", ""), json.loads(fields["data"]))


class Stream:
    """An open stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self, seconds: float = 10.0) -> Event | None:
        """The next event, or None when the server ended the stream."""
        read = Lines()
        async with asyncio.timeout(seconds):
            async for line in self._lines:
                if event := read.take(line):
                    return event
        return None

    async def rest(self) -> list[Event]:
        """All that is still coming."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@asynccontextmanager
async def watching(
    client: httpx2.AsyncClient, task_id: str, headers: dict[str, str], *, after: str = ""
) -> AsyncIterator[Stream]:
    """The stream of a task."""
    if after:
        headers = {**headers, "Last-Event-ID": after}
    async with client.stream(
        "GET", "/background-tasks", params={"task_id": task_id}, headers=headers
    ) as response:
        yield Stream(response)
