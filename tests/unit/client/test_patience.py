"""How long a watcher waits for a manager that is away; the clock is the test's."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from wharfinger.client.connection import Connection
from wharfinger.client.errors import ConnectionLost, RemoteError, ServerUnreachable
from wharfinger.client.http import Client
from wharfinger.client.resume import PATIENCE_SECONDS
from wharfinger.client.sse import Event
from wharfinger.client.watch import ENDS, watch_task

pytestmark = pytest.mark.looptime

DATA = {"current_progress": 0, "total_progress": 0, "message": "", "items": []}
Stream = Callable[[], AsyncIterator[Event]]


def event(event_id: str, kind: str = "bgtask_updated") -> Event:
    return Event(event_id, kind, json.dumps(DATA))


class ScriptedClient(Client):
    """Each watch gets the next stream or error; the last one again and again."""

    def __init__(self, *script: Stream | Exception) -> None:
        super().__init__(Connection("http://127.0.0.1:1"))
        self.script = list(script)
        self.asked: list[str] = []

    @asynccontextmanager
    async def events(
        self, path: str, parameters: dict[str, str], *, last_event_id: str = ""
    ) -> AsyncIterator[AsyncIterator[Event]]:
        del path, parameters
        self.asked.append(last_event_id)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        yield step()


def stream(*events: Event, seconds: float = 0.0) -> Stream:
    """One that gives these events, stays open that long, and ends."""

    async def told() -> AsyncIterator[Event]:
        for each in events:
            yield each
        await asyncio.sleep(seconds)

    return told


async def watched(client: Client) -> tuple[list[str], float]:
    """The kinds of events seen, and how long it took."""
    clock = asyncio.get_running_loop().time
    began = clock()
    kinds = [each.kind async for each in watch_task(client, "task-1")]
    return kinds, clock() - began


async def test_a_manager_that_was_never_reached_is_given_up_at_once() -> None:
    client = ScriptedClient(ServerUnreachable())
    with pytest.raises(ServerUnreachable):
        await watched(client)
    assert client.asked == [""]


async def test_a_manager_that_went_away_is_given_up_after_the_patience() -> None:
    client = ScriptedClient(stream(event("1-1")), ServerUnreachable())
    clock = asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(ServerUnreachable):
        await watched(client)
    assert PATIENCE_SECONDS < clock() - began < PATIENCE_SECONDS + 10
    assert set(client.asked[1:]) == {"1-1"}
    assert len(client.asked) < 50


async def test_a_manager_that_restarts_is_waited_for() -> None:
    away: list[Stream | Exception] = [ServerUnreachable()] * 10
    client = ScriptedClient(
        stream(event("1-1")), *away, ConnectionLost(), stream(event("2-1", "bgtask_done"))
    )
    kinds, _ = await watched(client)
    assert kinds == ["bgtask_updated", "bgtask_done"]


async def test_silent_streams_that_are_cut_now_and_then_are_contact() -> None:
    silent: list[Stream | Exception] = [stream(seconds=50)] * 10
    client = ScriptedClient(*silent, stream(event("1-1", "bgtask_failed")))
    kinds, seconds = await watched(client)
    assert kinds == ["bgtask_failed"]
    assert seconds > 4 * PATIENCE_SECONDS


async def test_streams_that_break_at_once_are_not() -> None:
    with pytest.raises(ConnectionLost):
        await watched(ScriptedClient(stream()))


async def test_a_refusal_ends_the_watching() -> None:
    client = ScriptedClient(stream(event("1-1")), RemoteError("unknown-id", "gone"))
    with pytest.raises(RemoteError, match="gone"):
        await watched(client)


@pytest.mark.parametrize("kind", ENDS)
async def test_nothing_is_asked_after_the_end(kind: str) -> None:
    client = ScriptedClient(stream(event("1-1", kind), event("1-2")))
    assert (await watched(client))[0] == [kind]
    assert client.asked == [""]
