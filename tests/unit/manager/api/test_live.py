"""One stream as an ASGI response, without a server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Gauge
from starlette.types import Message

from wharfinger.manager.api.live import EventStream
from wharfinger.manager.background.port import TaskEvent
from wharfinger.manager.bus.port import SubscriberOverflow

UPDATE = TaskEvent("1-1", "bgtask_updated", {"task_id": "t", "message": "línea\nzwei"})
END = TaskEvent("1-2", "bgtask_done", {"task_id": "t"})


@dataclass
class Watched:
    """Gives `events`, then raises `error`, or says nothing more."""

    events: list[TaskEvent]
    error: Exception | None = None
    left: bool = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncIterator[TaskEvent]]:
        try:
            yield self._all()
        finally:
            self.left = True

    async def _all(self) -> AsyncIterator[TaskEvent]:
        for event in self.events:
            yield event
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()


@dataclass
class Client:
    """Reads all, or nothing after `reads` messages; goes when told."""

    reads: int = 10**9
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    got: list[Message] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if len(self.got) >= self.reads:
            await asyncio.Event().wait()
        self.got.append(message)
        self.arrived.set()

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.got).decode()

    @property
    def complete(self) -> bool:
        return self.got[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def run(watched: Watched, client: Client, **settings: Any) -> None:
    settings.setdefault("drain", asyncio.Event())
    gauge = Gauge("open", "Open.", registry=None)
    stream = EventStream(watched.open(), open_streams=gauge, **settings)
    async with asyncio.timeout(10):
        await stream({}, client.receive, client.send)
    assert watched.left
    assert gauge._value.get() == 0


async def test_an_event_has_id_kind_and_one_line_of_json() -> None:
    client = Client()
    await run(Watched([UPDATE, END]), client)
    assert client.text == (
        'event: bgtask_updated\ndata: {"task_id":"t","message":"línea\\nzwei"}\nid: 1-1\n\n'
        'event: bgtask_done\ndata: {"task_id":"t"}\nid: 1-2\n\n'
    )
    assert client.complete


async def test_a_silent_stream_says_that_it_lives() -> None:
    client = Client()
    running = asyncio.create_task(run(Watched([UPDATE]), client, keep_alive=0.01))
    async with asyncio.timeout(10):
        while client.text.count(": ping\n\n") < 3:
            client.arrived.clear()
            await client.arrived.wait()
    client.gone.set()
    await running


async def test_a_client_that_does_not_read_is_left_after_a_while() -> None:
    client = Client(reads=1)
    await run(Watched([UPDATE, END]), client, patience=0.01)
    assert not client.complete


async def test_draining_ends_the_stream_even_in_the_middle_of_a_send() -> None:
    drain = asyncio.Event()
    client = Client(reads=1)
    running = asyncio.create_task(run(Watched([UPDATE]), client, drain=drain))
    async with asyncio.timeout(10):
        await client.arrived.wait()
    drain.set()
    await running


async def test_what_cannot_be_resumed_is_not_ended_properly_by_draining() -> None:
    class Output(EventStream):
        resumable = False

    drain = asyncio.Event()
    client = Client()
    gauge = Gauge("open", "Open.", registry=None)
    watched = Watched([UPDATE])
    output = Output(watched.open(), open_streams=gauge, drain=drain)
    running = asyncio.create_task(output({}, client.receive, client.send))
    async with asyncio.timeout(10):
        await client.arrived.wait()
    drain.set()
    await running
    assert watched.left
    assert not client.complete


async def test_a_stream_asked_for_while_draining_ends_at_once() -> None:
    drain = asyncio.Event()
    drain.set()
    client = Client()
    await run(Watched([]), client, drain=drain)
    assert client.complete


async def test_a_watch_that_overflowed_ends_the_stream_properly() -> None:
    client = Client()
    await run(Watched([UPDATE], SubscriberOverflow()), client)
    assert client.complete


async def test_a_client_that_went_is_sent_nothing_more() -> None:
    client = Client()
    client.gone.set()
    await run(Watched([]), client)
    assert not client.complete


async def test_a_cancelled_stream_leaves_its_watch() -> None:
    watched, client = Watched([UPDATE]), Client()
    running = asyncio.create_task(run(watched, client))
    async with asyncio.timeout(10):
        await client.arrived.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert watched.left
