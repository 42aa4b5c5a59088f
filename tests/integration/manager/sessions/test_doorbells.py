"""Who is woken when sessions or agents change."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest
from rig.tasks import eventually

from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.port import Message
from wharfinger.manager.fleet.service import CHANGED as FLEET_CHANGED
from wharfinger.manager.loops import Loop
from wharfinger.manager.sessions.channels import ring
from wharfinger.manager.sessions.doorbells import Doorbells


class House:
    """Two loops that count their rounds; `SCHEDULED` is the first one's turn."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self.order: list[str] = []
        self.first = Loop("first", lambda: self._round("first"), 3600)
        self.second = Loop("second", lambda: self._round("second"), 3600)
        turns = {KernelStatus.SCHEDULED: (self.first,)}
        self.doorbells = Doorbells(self.bus, (self.first, self.second), turns)

    async def _round(self, name: str) -> None:
        self.order.append(name)

    async def rounds(self, **expected: int) -> None:
        async def reached() -> bool:
            return Counter(self.order) == expected

        await eventually(reached)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = House()
    made.first.start()
    made.second.start()
    await made.rounds(first=1, second=1)
    made.doorbells.start()

    async def listening() -> bool:
        return len(made.bus._subscribers) == 2

    await eventually(listening)
    made.order.clear()
    yield made
    await made.doorbells.stop()
    await made.first.stop()
    await made.second.stop()
    await made.bus.close()


async def test_any_change_wakes_everybody(house: House) -> None:
    await ring(house.bus)
    await house.rounds(first=1, second=1)
    await house.bus.publish(FLEET_CHANGED, Message("", "changed", {}, "changed"))
    await house.rounds(first=2, second=2)


async def test_those_whose_turn_it_is_come_first_and_the_others_after(house: House) -> None:
    await ring(house.bus, KernelStatus.SCHEDULED)
    await house.rounds(first=2, second=1)
    assert house.order[0] == "first"


async def test_stopping_in_between_wakes_nobody_any_more(house: House) -> None:
    await ring(house.bus, KernelStatus.SCHEDULED)
    await house.rounds(first=1)
    await house.doorbells.stop()
    assert house.order == ["first"]
