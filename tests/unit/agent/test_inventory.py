import asyncio

from rig.misbehaving_engine import MisbehavingEngine

from wharfinger.agent.engine.port import LocalImage
from wharfinger.agent.inventory import ImageListing, inventory_of


async def test_only_a_listing_that_differs_is_news() -> None:
    engine, news = MisbehavingEngine(), asyncio.Event()
    images = ImageListing(engine, news)
    await images.refresh()
    assert news.is_set()
    news.clear()
    await images.refresh()
    assert not news.is_set()
    engine.hold()
    await images.refresh()
    assert news.is_set()


def test_the_version_of_a_listing_is_its_content_in_any_order() -> None:
    one = LocalImage("id1", ("example.org/a:1", "example.org/a:2"), (), 5)
    two = LocalImage("id2", (), ("example.org/a@sha256:" + "a" * 64,), 6)
    turned = LocalImage("id1", ("example.org/a:2", "example.org/a:1"), (), 5)
    assert inventory_of([one, two]) == inventory_of([two, turned])
    assert inventory_of([one]).version != inventory_of([one, two]).version
    assert inventory_of([]).version
