"""What tests of background tasks share: managers that misbehave in named ways, and waiting."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import ProgressReporter, TaskEvent, TaskResult, TaskRun
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.bus.port import Bus, Message, Subscription
from wharfinger.manager.storage.errors import StorageUnavailable
from wharfinger.manager.storage.port import Storage

P = ParamSpec("P")
T = TypeVar("T")

BRISK = Timing(
    take_over=0.02, publish=0.01, save=0.01, reread=0.05, retry=0.01, remove=0.05, stop=0.2
)
"""Everything that has a period comes round quickly; leases hold."""

DOZING = Timing(lease=0.0, renew=3600.0, take_over=3600.0, publish=0.01, save=0.01, stop=0.2)
"""A manager whose leases have always run out: to others it looks dead, or frozen."""

DEADLINE_SECONDS = 20.0


class UnreliableStorage:
    """A storage that refuses while `down`, like a database that cannot be reached."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.down = False

    async def write(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self.down:
            raise StorageUnavailable
        return await self._storage.write(function, *args, **kwargs)

    async def read(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self.down:
            raise StorageUnavailable
        return await self._storage.read(function, *args, **kwargs)

    async def close(self) -> None:
        await self._storage.close()


class LossyBus:
    """A bus that loses what is published while `losing`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.losing = False

    async def publish(self, channel: str, message: Message) -> None:
        if not self.losing:
            await self._bus.publish(channel, message)

    def subscribe(
        self, channel: str, *, after: str | None = None
    ) -> AbstractAsyncContextManager[Subscription]:
        return self._bus.subscribe(channel, after=after)

    async def retained(self, channel: str) -> Sequence[Message]:
        return await self._bus.retained(channel)

    async def close(self) -> None:
        await self._bus.close()


class Work:
    """A body under a test's control, as an ad hoc coroutine (`body`) and as a named `function`.

    It says when it has begun, reports what it is told to, and ends when told how. Asked to
    cancel, the function ends `cancelled` unless it is `deaf`.
    """

    def __init__(self, *, deaf: bool = False) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.runs: list[TaskRun] = []
        self.reporter: ProgressReporter | None = None
        self._deaf = deaf
        self._end: asyncio.Future[TaskResult] = asyncio.Future()

    @property
    def ended(self) -> bool:
        """Whether it was told how to end."""
        return self._end.done()

    def end(
        self,
        status: TaskStatus = TaskStatus.SUCCEEDED,
        message: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        self._end.set_result(TaskResult(status, message, detail=detail))

    def fail(self, error: Exception) -> None:
        self._end.set_exception(error)

    async def report(self, **report: Any) -> None:
        assert self.reporter is not None
        await self.reporter(**report)

    async def body(self, reporter: ProgressReporter) -> TaskResult:
        self.reporter = reporter
        self.begun.set()
        try:
            return await asyncio.shield(self._end)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def function(self, run: TaskRun) -> TaskResult:
        self.runs.append(run)
        asked = asyncio.create_task(run.wait_cancel_requested())
        ended = asyncio.create_task(self.body(run))
        try:
            await asyncio.wait(
                {ended} if self._deaf else {asked, ended}, return_when=asyncio.FIRST_COMPLETED
            )
            return ended.result() if ended.done() else TaskResult(TaskStatus.CANCELLED)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            asked.cancel()
            ended.cancel()
            await asyncio.wait({asked, ended})


def no_items(_conn: Connection, _task_id: str, /) -> Sequence[Mapping[str, Any]]:
    """The items of tasks that have none."""
    return ()


async def start_named(
    tasks: BackgroundTasks,
    storage: Storage,
    function: str = "work",
    *,
    launch: bool = True,
    owner_id: str = "ada",
) -> str:
    """A named task, launched on `tasks` or left for whoever takes it."""

    def insert(conn: Connection) -> str:
        return tasks.insert_named(
            conn, name=function, function=function, arguments={"of": "it"}, owner_id=owner_id
        )

    task_id = await storage.write(insert)
    if launch:
        await tasks.launch(task_id)
    return task_id


async def events_of(
    tasks: BackgroundTasks, task_id: str, *, last_event_id: str | None = None
) -> list[TaskEvent]:
    """All events up to the end."""
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        tasks.watch(task_id, last_event_id=last_event_id) as events,
    ):
        return [event async for event in events]


async def end_of(tasks: BackgroundTasks, task_id: str) -> TaskStatus:
    """The status a task ends in."""
    events = await events_of(tasks, task_id)
    return TaskStatus(events[-1].data["status"])


async def within(awaitable: Awaitable[T]) -> T:
    """What it gives, before the deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await awaitable


async def eventually(predicate: Callable[[], Awaitable[bool]]) -> None:
    """Return once it holds; `TimeoutError` after the deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await predicate():  # noqa: ASYNC110 - others' state has no event to wait for
            await asyncio.sleep(0.005)


async def next_event(events: AsyncIterator[TaskEvent]) -> TaskEvent:
    """The next event, before the deadline."""
    return await within(anext(events))
