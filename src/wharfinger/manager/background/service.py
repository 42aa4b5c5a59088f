"""The task framework as others use it."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import structlog
from sqlalchemy import Connection

from wharfinger.domain.errors import Conflict
from wharfinger.domain.states import TASK_TRANSITIONS, TaskStatus
from wharfinger.manager.background import channels, reading, store
from wharfinger.manager.background.mirroring import Mirroring
from wharfinger.manager.background.port import (
    ItemsOf,
    JobScheduler,
    NamedFunction,
    Outstanding,
    OutstandingMirror,
    TaskBody,
    TaskEvent,
    TaskResult,
    TaskView,
)
from wharfinger.manager.background.reading import Reading
from wharfinger.manager.background.run import Run
from wharfinger.manager.background.runner import Runner
from wharfinger.manager.background.store import Noting
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.background.turns import Turns, Waits
from wharfinger.manager.background.watch import watch
from wharfinger.manager.bus.follow import follow
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.loops import Loop
from wharfinger.manager.storage.errors import StorageUnavailable
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.transitions import Transition, history

log = structlog.get_logger()

_REMOVED_AT_ONCE = 100
_STOPPING = "this manager is stopping"


class BackgroundTasks:
    """Runs the tasks of one manager, takes over those of dead ones, and shows all of them.

    `waits` says which categories of named tasks wait for which; all managers are to agree. A
    `mirror` is told which tasks are outstanding.
    """

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        *,
        timing: Timing | None = None,
        waits: Waits | None = None,
        mirror: OutstandingMirror | None = None,
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._timing = timing or Timing()
        self._waits = waits or {}
        self._functions: dict[str, NamedFunction] = {}
        self._items_of: dict[str, ItemsOf] = {}
        self._categories: dict[str, str | None] = {}
        self._runner = Runner(storage, bus, self._timing, on_end=self._ended)
        self._takeover = Loop("task takeover", self._take_over, self._timing.take_over)
        self._loops: tuple[Loop, ...] = (
            Loop("task doorbell", self._listen, self._timing.retry),
            Loop("task leases", self._runner.renew, self._timing.renew),
            self._takeover,
            Loop("task retention", self._remove_ended, self._timing.remove),
        )
        self._mirroring: Mirroring | None = None
        if mirror is not None:
            self._mirroring = Mirroring(
                mirror, storage, self._waits, self._timing, held=self._runner.runs.keys()
            )
            self._loops += (self._mirroring.loop,)

    @property
    def loops(self) -> Sequence[Loop]:
        """Its loops, for readiness to look at."""
        return self._loops

    @property
    def running(self) -> int:
        """How many tasks this manager runs now."""
        return len(self._runner.runs)

    @property
    def ended(self) -> Mapping[TaskStatus, int]:
        """How many tasks ended here since the start, by status."""
        return Counter(self._runner.ended)

    def register(
        self, function: str, run: NamedFunction, items: ItemsOf, category: str | None = None
    ) -> None:
        """Make a function of named tasks known, what reads their items, and their category."""
        self._functions[function] = run
        self._items_of[function] = items
        self._categories[function] = category

    async def start(self, *, sole_manager: bool = False) -> None:
        """Begin to take over what is abandoned.

        A `sole_manager` knows that all before it are dead: what they held is abandoned now.
        """
        if sole_manager:
            await self._storage.write(store.void_leases, runner=self._runner.id)
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """End every run by plan: named tasks are handed over at once, ad hoc ones end.

        Bounded in time, whatever bodies do. Twice, or before the start, is fine.
        """
        for loop in self._loops:
            await loop.stop()
        await self._runner.stop()

    async def start_background_task(
        self,
        body: TaskBody,
        *,
        name: str,
        owner_id: str,
        scheduler: JobScheduler | None = None,
    ) -> str:
        """Run a coroutine as an ad hoc task of this manager; the task's id.

        A `scheduler` given runs the coroutine, and is closed when this manager stops. Raises
        `Conflict` when the manager is stopping.
        """

        async def perform(run: Run) -> TaskResult | None:
            if not await self._storage.write(
                store.start_ad_hoc, run.task_id, runner=self._runner.id
            ):
                return None
            return await body(run)

        if self._runner.stopping:
            raise Conflict(_STOPPING)
        taken = await self._storage.write(
            store.insert_ad_hoc,
            name=name,
            owner_id=owner_id,
            runner=self._runner.id,
            lease_seconds=self._timing.lease,
        )
        if not await self._runner.begin(taken, perform, scheduler):
            raise Conflict(_STOPPING)
        return taken.task_id

    def insert_named(
        self,
        conn: Connection,
        *,
        name: str,
        function: str,
        arguments: Mapping[str, Any],
        owner_id: str,
        unit: str = "items",
        total: int = 0,
        at_once: bool = False,
    ) -> str:
        """Insert a named task within the caller's transaction; its id, to be launched after it.

        `function` is a registered one. `arguments` are JSON-ready. With `at_once` raises
        `Outstanding` where the task would have to wait for others.
        """
        if function not in self._functions:
            raise LookupError(f"no function {function!r} of background tasks is registered")
        category = self._categories[function]
        awaited = Turns.read(conn, self._waits).before_new(category) if at_once else ()
        if awaited:
            raise Outstanding([place.task_id for place in awaited])
        return store.insert_named(
            conn,
            name=name,
            function=function,
            arguments=arguments,
            owner_id=owner_id,
            unit=unit,
            total=total,
            category=category,
        )

    async def launch(self, task_id: str) -> None:
        """Run a named task here, now, unless another manager was faster or it has to wait.

        It exists already, so what the database refuses now is done by the next look for abandoned
        tasks.
        """
        if self._runner.stopping or task_id in self._runner.runs:
            return
        if self._mirroring is not None:
            self._mirroring.began()
        try:
            taken = await self._storage.write(
                store.take,
                task_id,
                self._waits,
                runner=self._runner.id,
                lease_seconds=self._timing.lease,
            )
        except StorageUnavailable as error:
            log.warning("task not launched yet", task=task_id, error=error.to_json())
            return
        if taken is None or taken.function is None:
            return
        if taken.epoch > 1:
            log.info("task taken over", task=task_id, name=taken.name, epoch=taken.epoch)
        await self._runner.begin(taken, self._functions[taken.function])

    async def list(
        self,
        *,
        owner_id: str | None,
        statuses: Collection[TaskStatus],
        after: str | None,
        limit: int,
    ) -> list[TaskView]:
        """Up to `limit` tasks, newest first, without their items.

        `owner_id` None means everybody's, no `statuses` any. `after` is the id of the task that
        the page follows. Raises `InvalidRequest` when that one is gone.
        """
        return await self._storage.read(
            reading.page,
            self._waits,
            owner_id=owner_id,
            statuses=statuses,
            after=after,
            limit=limit,
        )

    async def show(self, task_id: str) -> TaskView:
        """One task with its items. Raises `UnknownId`."""
        return (await self._read(task_id)).view

    async def transitions(self, task_id: str) -> Sequence[Transition]:
        """What happened to a task, oldest first."""
        return await self._storage.read(history, TASK_TRANSITIONS.name, task_id)

    async def cancel(self, task_id: str, *, by: str, noting: Noting | None = None) -> TaskView:
        """Ask for the end of a task, wherever it runs; the task after that.

        What has not begun is cancelled at once; what runs is so when its body has stopped its
        parts. Asking twice is fine. `noting` runs in the transaction of the request. Raises
        `UnknownId`, and `Conflict` when it ended otherwise.
        """
        status = await self._storage.write(store.request_cancel, task_id, by=by, noting=noting)
        log.info("cancel requested", task=task_id, by=by, status=status)
        run = self._runner.runs.get(task_id)
        if run is not None:
            run.request_cancel()
        if status is TaskStatus.RUNNING:
            bell = Message("", channels.CANCEL, {"taskId": task_id})
            await channels.ring(self._bus, channels.DOORBELL, bell)
        else:
            await channels.ring_end(self._bus, task_id)
            await self._ended(task_id)
        return await self.show(task_id)

    @asynccontextmanager
    async def watch(
        self, task_id: str, *, last_event_id: str | None = None
    ) -> AsyncIterator[AsyncIterator[TaskEvent]]:
        """The events of a task, to be read within the context. Raises `UnknownId` on entering.

        The first is the present state with all items, unless what follows `last_event_id` is
        still known; the last is the end, with all items. They stop without one when the bus is
        closed, since this manager stops.
        """
        await self._storage.read(reading.require, task_id)
        events = watch(
            task_id,
            read=lambda: self._read(task_id),
            bus=self._bus,
            last_event_id=last_event_id,
            reread_seconds=self._timing.reread,
        )
        async with aclosing(events):
            yield events

    async def _read(self, task_id: str) -> Reading:
        return await self._storage.read(reading.show, task_id, self._items_of, self._waits)

    async def _take_over(self) -> None:
        alive = tuple(self._runner.runs)
        for task_id, function in await self._storage.read(
            store.abandoned, self._waits, alive=alive
        ):
            if function in self._functions:
                await self.launch(task_id)
            elif function is None and await self._storage.write(
                store.end_abandoned, task_id, runner=self._runner.id
            ):
                log.info("task ended with its manager", task=task_id)
                await channels.ring_end(self._bus, task_id)

    async def _listen(self) -> None:
        await follow(self._bus, channels.DOORBELL, self._hear)

    async def _hear(self, message: Message) -> None:
        match message.kind:
            case channels.CANCEL:
                run = self._runner.runs.get(message.data["taskId"])
                if run is not None:
                    run.request_cancel()
            case channels.ABANDONED | channels.TURN:
                self._takeover.ring()

    async def _ended(self, task_id: str) -> None:
        """A task has ended: here and elsewhere, those that waited for it may begin."""
        if self._mirroring is not None:
            self._mirroring.ended(task_id)
        if self._waits:
            self._takeover.ring()
            await channels.ring(self._bus, channels.DOORBELL, Message("", channels.TURN, {}))

    async def _remove_ended(self) -> None:
        removed = _REMOVED_AT_ONCE
        while removed == _REMOVED_AT_ONCE:
            removed = await self._storage.write(
                store.remove_ended, older_than=self._timing.keep, limit=_REMOVED_AT_ONCE
            )
