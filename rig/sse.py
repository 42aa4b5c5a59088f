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


class Stream:
    """An open stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self, seconds: float = 10.0) -> Event | None:
        """The next event, or None when the server ended the stream."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(seconds):
            async for line in self._lines:
                if line.startswith(":"):
                    return Event("", "", line[1:].strip())
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif fields:
                    return Event(fields["event"], fields["id"], json.loads(fields["data"]))
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
