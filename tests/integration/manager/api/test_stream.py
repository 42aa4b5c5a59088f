"""Watching tasks over Server-Sent Events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from rig.api import Api, running_api
from rig.sse import watching

from wharfinger.domain.states import TaskStatus
from wharfinger.manager.api import serve
from wharfinger.manager.background.port import (
    ProgressReporter,
    TaskEvent,
    TaskResult,
    TaskView,
)
from wharfinger.manager.storage.port import Storage


@dataclass
class Body:
    """A task that says what it is told to say, and ends when told."""

    sayings: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)
    said: int = 0

    async def __call__(self, reporter: ProgressReporter) -> TaskResult:
        while (current := await self.sayings.get()) is not None:
            await reporter(current=current, maximum=100, message=f"at {current}")
            self.said += 1
        return TaskResult(TaskStatus.SUCCEEDED, "all done")

    def say(self, current: int | None) -> None:
        self.sayings.put_nowait(current)


async def start(api: Api, body: Body, owner: str = "ann") -> str:
    return await api.background.start_background_task(
        body, name="test", owner_id=await api.user_id(owner)
    )


async def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what others hold has no event to wait for
            await asyncio.sleep(0.01)


def open_streams(api: Api) -> float:
    return api.metrics.registry.get_sample_value("wharfinger_open_streams") or 0.0


async def test_a_watcher_gets_the_present_state_then_news_then_the_end(api: Api) -> None:
    body = Body()
    task_id = await start(api, body)
    async with watching(api.client, task_id, api.headers("ann")) as stream:
        assert stream.response.status_code == 200
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        first = await stream.next()
        assert first is not None
        assert first.kind == "bgtask_updated"
        assert first.data["task_id"] == task_id
        body.say(40)
        while (event := await stream.next()) is not None and event.data["current_progress"] != 40:
            pass
        assert event is not None
        assert event.data["total_progress"] == 100
        assert event.data["message"] == "at 40"
        body.say(None)
        last = (await stream.rest())[-1]
        assert last.kind == "bgtask_done"
        assert {"task_id", "current_progress", "total_progress", "message", "items"} <= set(
            last.data
        )


async def test_who_comes_late_gets_the_present_state_first(api: Api) -> None:
    body = Body()
    task_id = await start(api, body)
    body.say(70)
    await until(lambda: body.said == 1)
    async with watching(api.client, task_id, api.headers("ann")) as stream:
        first = await stream.next()
        assert first is not None
        assert first.data["current_progress"] == 70
        body.say(None)
        assert (await stream.rest())[-1].kind == "bgtask_done"


async def test_who_reconnects_gets_nothing_twice(api: Api) -> None:
    body = Body()
    task_id = await start(api, body)
    async with watching(api.client, task_id, api.headers("ann")) as stream:
        seen = [await stream.next()]
        body.say(10)
        seen.append(await stream.next())
    assert seen[-1] is not None
    body.say(20)
    body.say(None)
    async with watching(api.client, task_id, api.headers("ann"), after=seen[-1].id) as stream:
        rest = await stream.rest()
    told = [(event.kind, event.id) for event in [*seen, *rest] if event is not None]
    assert len(told) == len(set(told))
    assert rest[-1].kind == "bgtask_done"
    assert rest[-1].data["current_progress"] == 20


@pytest.mark.parametrize("known", ["nonsense", "0-0", "99-99", "1-999999"])
async def test_an_unknown_event_id_gets_the_present_state(api: Api, known: str) -> None:
    body = Body()
    task_id = await start(api, body)
    async with watching(api.client, task_id, api.headers("ann"), after=known) as stream:
        first = await stream.next()
        assert first is not None
        assert first.kind == "bgtask_updated"
        body.say(None)
        assert (await stream.rest())[-1].kind == "bgtask_done"


async def test_a_finished_task_sends_its_end_and_closes(api: Api) -> None:
    body = Body()
    body.say(None)
    task_id = await start(api, body)
    async with watching(api.client, task_id, api.headers("ann")) as stream:
        await stream.rest()
    for user in ("ann", "root"):
        async with watching(api.client, task_id, api.headers(user)) as stream:
            events = await stream.rest()
        assert [event.kind for event in events] == ["bgtask_done"]


@pytest.mark.parametrize("task_id", ["nothing", "", "x\0y", "x" * 201])
async def test_an_unknown_task_is_refused_before_the_stream_begins(api: Api, task_id: str) -> None:
    async with watching(api.client, task_id, api.headers("root")) as stream:
        body = json.loads(await stream.response.aread())
        assert stream.response.status_code == (404 if task_id in {"nothing", ""} else 400)
        assert stream.response.headers["content-type"] == "application/json"
        assert body["error"]["class"] in {"unknown-id", "invalid-request"}


async def test_no_task_id_is_a_bad_request(api: Api) -> None:
    answer = await api.client.get("/background-tasks", headers=api.headers("root"))
    assert answer.status_code == 400
    assert answer.json()["error"]["detail"]["problems"][0]["at"] == "query.task_id"


async def test_somebody_elses_task_is_forbidden_but_to_a_superadmin(api: Api) -> None:
    body = Body()
    task_id = await start(api, body, "ann")
    async with watching(api.client, task_id, api.headers("bob")) as stream:
        refused = json.loads(await stream.response.aread())
        assert stream.response.status_code == 403
        assert refused["error"]["detail"]["needs"] == "owner"
    async with watching(api.client, task_id, api.headers("root")) as stream:
        assert await stream.next() is not None
        body.say(None)
        assert (await stream.rest())[-1].kind == "bgtask_done"


async def test_a_client_that_goes_frees_its_stream(api: Api) -> None:
    body = Body()
    task_id = await start(api, body)
    async with watching(api.client, task_id, api.headers("ann")) as stream:
        assert await stream.next() is not None
        assert open_streams(api) == 1
    await until(lambda: open_streams(api) == 0)
    assert (await api.background.show(task_id)).status is TaskStatus.RUNNING


async def test_draining_ends_open_streams_properly_and_the_server_within_seconds(
    api: Api,
) -> None:
    body = Body()
    task_id = await start(api, body)
    async with (
        watching(api.client, task_id, api.headers("ann")) as one,
        watching(api.client, task_id, api.headers("root")) as two,
    ):
        assert await one.next() is not None
        assert await two.next() is not None
        began = time.monotonic()
        await api.server.stop()
        assert time.monotonic() - began < 5
        # an end without an end event, and no broken connection
        assert await one.rest() == []
        assert await two.rest() == []
    assert open_streams(api) == 0


@dataclass
class Flood:
    """Tasks whose one task says more than anybody can read, without end."""

    watchers: int = 0

    async def show(self, task_id: str) -> TaskView:
        return TaskView(
            task_id, "flood", "", TaskStatus.RUNNING, False, 0, 1, "items", "", None, 0.0, 0.0, None
        )

    @asynccontextmanager
    async def watch(
        self, task_id: str, *, last_event_id: str | None
    ) -> AsyncIterator[AsyncIterator[TaskEvent]]:
        del last_event_id
        self.watchers += 1
        try:
            yield self._events(task_id)
        finally:
            self.watchers -= 1

    async def _events(self, task_id: str) -> AsyncIterator[TaskEvent]:
        number = 0
        while True:
            number += 1
            yield TaskEvent(
                f"1-{number}", "bgtask_updated", {"task_id": task_id, "message": "x" * 100_000}
            )
            await asyncio.sleep(0)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked here")


async def never_read(api: Api) -> asyncio.StreamWriter:
    """A client that asks for a stream and reads nothing of it."""
    _, writer = await asyncio.open_connection("127.0.0.1", api.server.port, limit=1)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(
        f"GET /background-tasks?task_id=t HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {api.tokens['root']}\r\n\r\n".encode()
    )
    return writer


async def test_a_client_that_never_reads_is_dropped(
    sqlite_storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "UNREAD_SECONDS", 1)
    flood = Flood()
    async with running_api(sqlite_storage, tasks=flood) as api:
        writer = await never_read(api)
        await until(lambda: flood.watchers == 1)
        await until(lambda: flood.watchers == 0, seconds=20)
        writer.transport.abort()


async def test_a_client_that_never_reads_does_not_hold_up_the_stop(
    sqlite_storage: Storage,
) -> None:
    flood = Flood()
    async with running_api(sqlite_storage, tasks=flood) as api:
        writer = await never_read(api)
        await until(lambda: flood.watchers == 1)
        began = time.monotonic()
        await api.server.stop()
        assert time.monotonic() - began < 5
        assert flood.watchers == 0
        writer.transport.abort()
