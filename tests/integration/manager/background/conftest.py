"""Managers that share one database and one bus."""

from collections.abc import AsyncIterator, Callable

import pytest
from rig.tasks import BRISK, no_items

from wharfinger.manager.background.port import ItemsOf, NamedFunction
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.background.timing import Timing
from wharfinger.manager.background.turns import Waits
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.storage.port import Storage

MakeManager = Callable[..., BackgroundTasks]


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    bus = MemoryBus()
    yield bus
    await bus.close()


@pytest.fixture
async def manager(storage: Storage, bus: MemoryBus) -> AsyncIterator[MakeManager]:
    """Makes managers, not started; all are stopped at the end."""
    made: list[BackgroundTasks] = []

    def make(
        function: NamedFunction | None = None,
        *,
        items: ItemsOf = no_items,
        timing: Timing = BRISK,
        storage: Storage = storage,
        bus: Bus = bus,
        waits: Waits | None = None,
    ) -> BackgroundTasks:
        tasks = BackgroundTasks(storage, bus, timing=timing, waits=waits)
        if function is not None:
            tasks.register("work", function, items)
        made.append(tasks)
        return tasks

    yield make
    for tasks in made:
        await tasks.stop()
