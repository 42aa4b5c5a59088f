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


async def test_a_listing_asked_for_is_news_though_nothing_changed() -> None:
    engine, news = MisbehavingEngine(), asyncio.Event()
    images = ImageListing(engine, news)
    await images.refresh()
    before = images.fresh
    assert before is not None
    news.clear()
    images.ask("asked-1")
    assert images.nudged.is_set()
    assert images.fresh is None

    await images.refresh()

    assert news.is_set()
    assert images.fresh == before.model_copy(update={"asked": "asked-1"})


async def test_a_listing_asked_for_while_one_is_made_is_the_next_one() -> None:
    class AskedMeanwhile(MisbehavingEngine):
        async def images(self) -> list[LocalImage]:
            images.ask("asked-1")
            return await super().images()

    images = ImageListing(AskedMeanwhile(), asyncio.Event())
    await images.refresh()
    assert images.fresh is None
    await images.refresh()
    assert images.fresh is not None


async def test_what_has_been_asked_is_not_asked_again() -> None:
    images = ImageListing(MisbehavingEngine(), asyncio.Event())
    images.ask("asked-1")
    images.nudged.clear()
    await images.refresh()
    images.ask("asked-1")
    assert not images.nudged.is_set()
