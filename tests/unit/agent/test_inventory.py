import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rig.misbehaving_engine import MisbehavingEngine

from wharfinger.agent.engine.port import LocalImage
from wharfinger.agent.inventory import InventoryWatch, inventory_of


@asynccontextmanager
async def following(watch: InventoryWatch) -> AsyncIterator[None]:
    task = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def first_listing(watch: InventoryWatch, news: asyncio.Event) -> str:
    async with asyncio.timeout(5):
        while watch.current is None:
            news.clear()
            await news.wait()
    return watch.current.version


async def test_an_engine_whose_events_have_died_unseen_is_listed_all_the_same() -> None:
    engine, news = MisbehavingEngine(), asyncio.Event()
    watch = InventoryWatch(engine, news, debounce_seconds=0, relist_seconds=0.01)
    async with following(watch):
        before = await first_listing(watch, news)
        engine.hold()
        news.clear()
        async with asyncio.timeout(5):
            await news.wait()
    assert watch.current is not None
    assert watch.current.version != before


async def test_nothing_is_listed_while_nothing_changes() -> None:
    engine, news = MisbehavingEngine(), asyncio.Event()
    watch = InventoryWatch(engine, news, debounce_seconds=0)
    async with following(watch):
        await first_listing(watch, news)
        for _ in range(50):
            await asyncio.sleep(0)
    assert engine.listings == 1


def test_the_version_of_a_listing_is_its_content_in_any_order() -> None:
    one = LocalImage("id1", ("example.org/a:1", "example.org/a:2"), (), 5)
    two = LocalImage("id2", (), ("example.org/a@sha256:" + "a" * 64,), 6)
    turned = LocalImage("id1", ("example.org/a:2", "example.org/a:1"), (), 5)
    assert inventory_of([one, two]) == inventory_of([two, turned])
    assert inventory_of([one]).version != inventory_of([one, two]).version
    assert inventory_of([]).version
