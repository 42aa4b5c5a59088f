"""Whatever happens to tasks and managers, in whatever order: each task has exactly one end."""

import asyncio
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from rig.tasks import DOZING, UnreliableStorage, Work, end_of, no_items, start_named
from sqlalchemy import Connection, select

from wharfinger.domain.errors import Conflict
from wharfinger.domain.states import TASK_TRANSITIONS, TaskStatus
from wharfinger.manager.background.port import TaskResult, TaskRun
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.storage.opening import open_storage
from wharfinger.manager.storage.tables import tasks
from wharfinger.manager.storage.transitions import history

T = TypeVar("T")

ENDS = strategies.sampled_from(sorted(TASK_TRANSITIONS.terminal))
WHICH = strategies.integers(0, 1)


def read_ends(conn: Connection) -> dict[str, tuple[TaskStatus, list[TaskStatus]]]:
    """The status of each task, and the ends that the log tells of it."""
    return {
        row.id: (
            TaskStatus(row.status),
            [
                target
                for move in history(conn, TASK_TRANSITIONS.name, row.id)
                if (target := TaskStatus(move.target)) in TASK_TRANSITIONS.terminal
            ],
        )
        for row in conn.execute(select(tasks.c.id, tasks.c.status))
    }


class Manager:
    """One replica, and its own way to the database, which a death cuts."""

    def __init__(self, world: "World") -> None:
        self.storage = UnreliableStorage(world.storage)
        self.tasks = BackgroundTasks(self.storage, world.bus, timing=DOZING)
        self.tasks.register("work", world.function, no_items)


class World(RuleBasedStateMachine):
    """Two managers, whose leases have always run out, on one database.

    Between two rules nothing moves; within one, everything that can.
    """

    template: ClassVar[Path]
    folder: ClassVar[Path]
    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.path = self.folder / f"{id(self)}"
        shutil.copy(self.template, self.path)
        self.ends: dict[str, TaskStatus] = {}
        self.works: dict[str, Work] = {}

    @initialize()
    def begin(self) -> None:
        async def begin() -> None:
            self.storage = open_storage(f"sqlite:///{self.path}")
            self.bus = MemoryBus()
            self.managers = [Manager(self), Manager(self)]

        self.run(begin())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    async def function(self, run: TaskRun) -> TaskResult:
        return await self.works.setdefault(run.task_id, Work()).function(run)

    @rule(target=ids, which=WHICH, launch=strategies.booleans())
    def start_named(self, which: int, launch: bool) -> str:
        manager = self.managers[which]
        return self.run(start_named(manager.tasks, self.storage, launch=launch))

    @rule(target=ids, which=WHICH)
    def start_ad_hoc(self, which: int) -> str:
        async def start() -> str:
            work = Work()
            manager = self.managers[which]
            task_id = await manager.tasks.start_background_task(work.body, name="n", owner_id="ada")
            self.works[task_id] = work
            return task_id

        return self.run(start())

    @rule(task_id=ids, end=ENDS)
    def finish(self, task_id: str, end: TaskStatus) -> None:
        async def finish() -> None:
            work = self.works.setdefault(task_id, Work())
            if not work.ended:
                work.end(end)

        self.run(finish())

    @rule(task_id=ids, which=WHICH)
    def cancel(self, task_id: str, which: int) -> None:
        async def cancel() -> None:
            try:
                await self.managers[which].tasks.cancel(task_id, by="ada")
            except Conflict:
                _, ends = (await self.storage.read(read_ends))[task_id]
                assert ends

        self.run(cancel())

    @rule(which=WHICH)
    def take_over(self, which: int) -> None:
        self.run(self.managers[which].tasks._take_over())

    @rule(which=WHICH)
    def renew(self, which: int) -> None:
        self.run(self.managers[which].tasks._runner.renew())

    @rule(which=WHICH, clean=strategies.booleans())
    def replace_manager(self, which: int, clean: bool) -> None:
        """By a planned stop, or by a death."""

        async def replace() -> None:
            manager = self.managers[which]
            manager.storage.down = not clean
            await manager.tasks.stop()
            self.managers[which] = Manager(self)

        self.run(replace())

    @rule()
    def let_things_happen(self) -> None:
        async def settle() -> None:
            for _ in range(5):
                await self.storage.read(lambda _conn: None)

        self.run(settle())

    @invariant()
    def an_end_is_the_only_one(self) -> None:
        if hasattr(self, "managers"):
            for task_id, (status, ends) in self.run(self.storage.read(read_ends)).items():
                if status in TASK_TRANSITIONS.terminal:
                    assert ends == [status]
                    assert self.ends.setdefault(task_id, status) is status
                else:
                    assert ends == []

    def teardown(self) -> None:
        async def end_everything() -> None:
            for manager in self.managers:
                await manager.tasks.stop()
            self.works.clear()
            last = Manager(self)
            last.tasks.register("work", self.done, no_items)
            await last.tasks.start(sole_manager=True)
            for task_id in await self.storage.read(read_ends):
                status = await end_of(last.tasks, task_id)
                assert self.ends.get(task_id, status) is status
            assert all(len(ends) == 1 for _, ends in (await self.storage.read(read_ends)).values())
            await last.tasks.stop()
            await self.bus.close()
            await self.storage.close()

        if hasattr(self, "managers"):
            self.run(end_everything())
        self.loop.close()

    async def done(self, run: TaskRun) -> TaskResult:
        return TaskResult(TaskStatus.SUCCEEDED, f"run {run.epoch}")


def test_every_task_has_exactly_one_end(sqlite_template: Path, tmp_path: Path) -> None:
    class Here(World):
        template = sqlite_template
        folder = tmp_path

    run_state_machine_as_test(
        Here,
        settings=settings(
            # 15 of the profile's 100: a step is a transaction
            max_examples=settings().max_examples * 15 // 100,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
