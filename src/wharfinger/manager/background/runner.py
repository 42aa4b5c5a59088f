"""What one manager runs: leases renewed, ends written, and a planned stop."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from wharfinger.domain.errors import WharfingerError
from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background import channels, store
from wharfinger.manager.background.port import JobScheduler, TaskResult
from wharfinger.manager.background.reporter import Reporter
from wharfinger.manager.background.run import Run
from wharfinger.manager.background.store import Progress, Taken
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.storage.port import Storage

log = structlog.get_logger()

Body = Callable[[Run], Awaitable[TaskResult | None]]


class Runner:
    """The runs of one manager. `id` is never used again by another, so it says whose a task is.

    `ended` counts the ends its runs came to, by status; `on_end` is called with
    the id of each task after its end.
    """

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        timing: Timing,
        *,
        on_end: Callable[[str], Awaitable[None]],
    ) -> None:
        self.id = new_id()
        self.runs: dict[str, Run] = {}
        self.stopping = False
        self.ended: Counter[TaskStatus] = Counter()
        self._storage = storage
        self._bus = bus
        self._timing = timing
        self._on_end = on_end
        self._keepers: set[asyncio.Task[None]] = set()
        self._schedulers: list[JobScheduler] = []

    async def begin(self, taken: Taken, body: Body, scheduler: JobScheduler | None = None) -> bool:
        """Run what was taken, and see to its end. False when this manager stops: it is left."""
        if self.stopping:
            await self._leave()
            return False
        run = Run(taken, self._reporter(taken), body, scheduled=scheduler is not None)
        self.runs[run.task_id] = run
        keeper = asyncio.create_task(self._keep(run), name=f"keeper of task {run.task_id}")
        self._keepers.add(keeper)
        keeper.add_done_callback(self._keepers.discard)
        if scheduler is None:
            run.start()
            return True
        if not any(known is scheduler for known in self._schedulers):
            self._schedulers.append(scheduler)
        work = run.work()
        try:
            await scheduler.spawn(work, name=f"task {run.task_id}")
        except BaseException:
            work.close()
            raise
        return True

    async def renew(self) -> None:
        """Renew every lease; interrupt what was lost, and tell of cancels asked for elsewhere."""
        held = dict(self.runs)
        if not held:
            return
        leases = await self._storage.write(
            store.renew, tuple(held), runner=self.id, lease_seconds=self._timing.lease
        )
        for task_id, run in held.items():
            lease = leases.get(task_id)
            if lease is None or lease.epoch != run.epoch:
                run.lose()
            elif lease.cancel_requested:
                run.request_cancel()

    async def stop(self) -> None:
        """End every run: named tasks are handed over at once, ad hoc ones end with it.

        Bounded in time, whatever bodies, schedulers and the database do. Twice is fine.
        """
        self.stopping = True
        for run in self.runs.values():
            run.stop()
        for scheduler in self._schedulers:
            await self._close(scheduler)
        self._schedulers.clear()
        await self._wait_for_keepers()
        for run in self.runs.values():
            run.abandon()
        await self._wait_for_keepers()
        for keeper in self._keepers:
            keeper.cancel()
        await self._wait_for_keepers()
        try:
            async with asyncio.timeout(self._timing.stop):
                await self._leave()
        except (TimeoutError, WharfingerError) as error:
            log.warning("tasks are not handed over, their leases will run out", error=repr(error))

    def _reporter(self, taken: Taken) -> Reporter:
        async def publish(message: Message) -> None:
            await self._bus.publish(channels.of_task(taken.task_id), message)

        async def save(progress: Progress) -> None:
            if not await self._storage.write(store.report, taken.task_id, taken.epoch, progress):
                self.runs[taken.task_id].lose()

        return Reporter(
            taken.epoch,
            taken.progress,
            publish=publish,
            publish_seconds=self._timing.publish,
            save=save,
            save_seconds=self._timing.save,
        )

    async def _keep(self, run: Run) -> None:
        try:
            run.reporter.start()
            try:
                await asyncio.wait({run.outcome})
            finally:
                await run.reporter.close(flush=not run.lost)
            result = run.outcome.result()
            if result is not None:
                await self._finish(run, result)
        except Exception:
            log.exception("run of a task met a defect", task=run.task_id)
        finally:
            del self.runs[run.task_id]

    async def _finish(self, run: Run, result: TaskResult) -> None:
        """Write the end; while the database cannot be used, again and again."""
        while True:
            try:
                ended = await self._storage.write(
                    store.finish,
                    run.task_id,
                    run.epoch,
                    result,
                    run.reporter.progress,
                    runner=self.id,
                )
            except WharfingerError as error:
                log.warning("end not written yet", task=run.task_id, error=error.to_json())
                await asyncio.sleep(self._timing.retry)
            else:
                break
        if ended:
            self.ended[result.status] += 1
            log.info("task ended", task=run.task_id, status=result.status, message=result.message)
        await channels.ring_end(self._bus, run.task_id)
        await self._on_end(run.task_id)

    async def _leave(self) -> None:
        named, ad_hoc = await self._storage.write(store.leave, runner=self.id)
        for task_id in ad_hoc:
            await channels.ring_end(self._bus, task_id)
        if named:
            await channels.ring(self._bus, channels.DOORBELL, Message("", channels.ABANDONED, {}))

    async def _close(self, scheduler: JobScheduler) -> None:
        try:
            async with asyncio.timeout(self._timing.stop):
                await scheduler.close()
        except TimeoutError:
            log.warning("a scheduler did not close in time", scheduler=repr(scheduler))

    async def _wait_for_keepers(self) -> None:
        if self._keepers:
            await asyncio.wait(self._keepers, timeout=self._timing.stop)
