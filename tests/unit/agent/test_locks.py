import asyncio
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.agent.locks import KeyedLocks

DIGESTS = ("d1", "d2", "d3")
IDS = ("i1", "i2")


@dataclass(frozen=True)
class Holder:
    """Holds keys for some turns of the loop, perhaps extends, perhaps is cancelled."""

    keys: frozenset[str]
    extension: str | None
    turns: int
    cancelled_after: int | None


removals = st.builds(
    Holder,
    keys=st.frozensets(st.sampled_from(DIGESTS + IDS), min_size=1),
    extension=st.none(),
    turns=st.integers(0, 4),
    cancelled_after=st.none() | st.integers(0, 8),
)
pulls = st.builds(
    Holder,
    keys=st.sampled_from(DIGESTS).map(lambda key: frozenset({key})),
    extension=st.sampled_from(IDS),
    turns=st.integers(0, 4),
    cancelled_after=st.none() | st.integers(0, 8),
)


class Yard:
    """Runs holders and asserts that no key ever has two."""

    def __init__(self) -> None:
        self.locks = KeyedLocks()
        self.taken: set[str] = set()

    def take(self, keys: set[str]) -> None:
        assert self.taken.isdisjoint(keys), f"{keys & self.taken} held twice"
        self.taken |= keys

    async def run(self, holder: Holder) -> None:
        async with self.locks.hold(*holder.keys) as hold:
            mine = set(holder.keys)
            self.take(mine)
            try:
                await turns(holder.turns)
                if holder.extension:
                    await hold.extend(holder.extension)
                    self.take({holder.extension} - mine)
                    mine.add(holder.extension)
                    await turns(holder.turns)
            finally:
                self.taken -= mine


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def cancel_later(task: asyncio.Task[None], after: int) -> None:
    await turns(after)
    task.cancel()


@given(st.lists(removals | pulls, max_size=8))
async def test_no_key_is_held_twice_and_everybody_gets_a_turn(holders: list[Holder]) -> None:
    yard = Yard()
    tasks = [asyncio.create_task(yard.run(holder)) for holder in holders]
    cancels = [
        asyncio.create_task(cancel_later(task, holder.cancelled_after))
        for task, holder in zip(tasks, holders, strict=True)
        if holder.cancelled_after is not None
    ]
    async with asyncio.timeout(5):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*cancels)
    for end, holder in zip(ends, holders, strict=True):
        cancelled = isinstance(end, asyncio.CancelledError) and holder.cancelled_after is not None
        assert end is None or cancelled, end
    assert not yard.locks.busy(*DIGESTS, *IDS)


async def test_who_shares_no_key_does_not_wait() -> None:
    locks = KeyedLocks()
    async with locks.hold("a", "b"), locks.hold("c"):
        assert locks.busy("a")
        assert not locks.busy("d")


async def test_a_later_request_does_not_overtake_one_that_waits_for_the_same_key() -> None:
    locks = KeyedLocks()
    order: list[str] = []

    async def hold(name: str, *keys: str) -> None:
        async with locks.hold(*keys):
            order.append(name)

    async with locks.hold("a"):
        tasks = [
            asyncio.create_task(hold("first", "a", "b")),
            asyncio.create_task(hold("second", "b")),
        ]
        await turns(3)
        assert order == []
    await asyncio.gather(*tasks)
    assert order == ["first", "second"]


async def test_an_extension_goes_before_those_who_hold_nothing() -> None:
    locks = KeyedLocks()
    order: list[str] = []

    async def remove() -> None:
        async with locks.hold("digest", "id"):
            order.append("removal")

    async with locks.hold("digest") as pull:
        removal = asyncio.create_task(remove())
        await turns(2)
        await pull.extend("id")
        order.append("pull")
    await removal
    assert order == ["pull", "removal"]


async def test_who_shares_excludes_who_does_not_and_lets_nobody_pass_by() -> None:
    locks = KeyedLocks()
    leave = asyncio.Event()
    served: list[str] = []

    async def share(name: str) -> None:
        async with locks.share("i1"):
            served.append(name)
            await leave.wait()

    async def hold() -> None:
        async with locks.hold("i1", "d1"):
            served.append("alone")

    async with asyncio.TaskGroup() as group:
        for waiter in (share("one"), share("two"), hold(), share("behind")):
            group.create_task(waiter)
        await turns(5)
        assert served == ["one", "two"]
        assert locks.busy("i1")
        leave.set()
    assert served == ["one", "two", "alone", "behind"]
    assert not locks.busy("i1", "d1")
