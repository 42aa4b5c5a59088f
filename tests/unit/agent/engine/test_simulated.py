"""The simulated engine means by the port what real ones do: cases of `tests/conformance` that need
no daemon, under the same names."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from wharfinger.agent.engine.port import (
    Change,
    ContainerSpec,
    Engine,
    EngineError,
    ImageAbsent,
    LayerEvent,
    LayerStep,
    NameTaken,
)
from wharfinger.agent.engine.simulated import SimulatedEngine, SimulatedImage
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.progress import Layer

NAME = "127.0.0.1:5000/lab/a"
BASE, OWN, OTHER = (
    Layer(f"sha256:{digit * 64}", size) for digit, size in zip("123", (40, 8, 4), strict=True)
)
FIRST, SECOND = f"{NAME}@sha256:{'a' * 64}", f"{NAME}@sha256:{'b' * 64}"
LIBRARY = {
    FIRST: SimulatedImage("sha256:first", (BASE, OWN), ("sha256:d1", "sha256:d2")),
    SECOND: SimulatedImage("sha256:second", (BASE, OTHER)),
}


@pytest.fixture
def engine() -> SimulatedEngine:
    return SimulatedEngine(LIBRARY)


def spec(image_id: str = "sha256:first", name: str = "one") -> ContainerSpec:
    return ContainerSpec(name, image_id, {"odd": "label"}, (), {}, 500, 1000, (), "none")


async def pull(engine: Engine, name: str = FIRST) -> list[LayerEvent]:
    async with engine.pull(name, None) as events:
        return [event async for event in events]


async def test_a_pull_tells_every_layer_in_order_and_within_its_size(
    engine: SimulatedEngine,
) -> None:
    events = await pull(engine)
    for layer in (BASE, OWN):
        own = [event for event in events if event.layer == layer.digest[7:19]]
        assert [event.step for event in own[-2:]] == [LayerStep.DOWNLOADING, LayerStep.DONE]
        numbers = [event.current or 0 for event in own[:-1]]
        assert numbers == sorted(numbers)
        assert numbers[-1] == layer.size


async def test_layers_that_are_there_are_not_fetched_again(engine: SimulatedEngine) -> None:
    await pull(engine)
    steps = {event.layer: event.step for event in reversed(await pull(engine, SECOND))}
    assert steps == {
        BASE.digest[7:19]: LayerStep.DONE,
        OTHER.digest[7:19]: LayerStep.DOWNLOADING,
    }


async def test_an_image_pulled_by_digest_is_found_by_digest_and_id_without_a_tag(
    engine: SimulatedEngine,
) -> None:
    assert await engine.inspect(FIRST) is None
    await pull(engine)
    image = await engine.inspect(FIRST)
    assert image is not None
    assert (image.tags, image.digests, image.size) == ((), (FIRST,), 48)
    assert await engine.inspect(image.image_id) == image
    assert [each.image_id for each in await engine.images()] == [image.image_id]
    assert await engine.layer_sizes(image) == (40, 8)


async def test_an_unknown_digest_is_not_found(engine: SimulatedEngine) -> None:
    with pytest.raises(EngineError) as raised:
        await pull(engine, f"{NAME}@sha256:{'c' * 64}")
    assert raised.value.failure.failure_class is FailureClass.NOT_FOUND
    assert raised.value.failure.detail


async def test_leaving_a_pull_ends_it_and_leaves_nothing_behind(engine: SimulatedEngine) -> None:
    async with engine.pull(FIRST, None) as events:
        await anext(aiter(events))
    assert await engine.images() == []


async def test_the_disk_holds_each_layer_once(engine: SimulatedEngine) -> None:
    await pull(engine)
    await pull(engine, SECOND)
    disk = await engine.disk()
    assert disk is not None
    assert disk.total - disk.free == 40 + 8 + 4


async def test_a_tag_names_the_image_and_moves_to_another(engine: SimulatedEngine) -> None:
    tag = f"{NAME}:here"
    await pull(engine)
    await pull(engine, SECOND)
    await engine.tag(FIRST, tag)
    await engine.tag(SECOND, tag)
    moved, left = await engine.inspect(tag), await engine.inspect(FIRST)
    assert moved is not None
    assert moved.image_id == "sha256:second"
    assert left is not None
    assert left.tags == ()


async def test_tagging_what_is_gone_is_told(engine: SimulatedEngine) -> None:
    with pytest.raises(EngineError, match="no longer on this host"):
        await engine.tag(FIRST, f"{NAME}:here")


async def test_untagging_one_of_several_names_keeps_the_image(engine: SimulatedEngine) -> None:
    await pull(engine)
    for tag in ("one", "two"):
        await engine.tag(FIRST, f"{NAME}:{tag}")
    await engine.untag(f"{NAME}:one")
    image = await engine.inspect(f"{NAME}:two")
    assert image is not None
    assert (image.tags, image.digests) == ((f"{NAME}:two",), (FIRST,))


async def test_untagging_the_last_tag_removes_the_image(engine: SimulatedEngine) -> None:
    await pull(engine)
    await engine.tag(FIRST, f"{NAME}:only")
    await engine.untag(f"{NAME}:only")
    assert await engine.images() == []


async def test_a_tag_of_another_repository_keeps_the_image(engine: SimulatedEngine) -> None:
    await pull(engine)
    await engine.tag(FIRST, f"{NAME}:only")
    await engine.tag(FIRST, "other.io/lab/b:v1")
    await engine.untag(f"{NAME}:only")
    [image] = await engine.images()
    assert (image.tags, image.digests) == (("other.io/lab/b:v1",), ())


async def test_untagging_what_is_absent_is_no_error(engine: SimulatedEngine) -> None:
    await engine.untag(f"{NAME}:nosuch")
    await engine.untag(FIRST)


@pytest.mark.parametrize("start", [True, False], ids=["running", "created"])
async def test_an_image_in_use_is_not_removed(engine: SimulatedEngine, start: bool) -> None:
    await pull(engine)
    await engine.tag(FIRST, f"{NAME}:used")
    await engine.create_container(spec())
    if start:
        await engine.start_container("one")
    image = await engine.inspect(FIRST)
    with pytest.raises(EngineError) as raised:
        await engine.untag(f"{NAME}:used")
    assert raised.value.failure.failure_class is FailureClass.IN_USE
    assert await engine.inspect(FIRST) == image


async def test_a_second_container_of_one_name_is_refused(engine: SimulatedEngine) -> None:
    await pull(engine)
    first = await engine.create_container(spec())
    with pytest.raises(NameTaken):
        await engine.create_container(spec())
    assert [each.container_id for each in await engine.containers()] == [first]


async def test_a_container_of_an_image_that_is_gone_is_refused(engine: SimulatedEngine) -> None:
    with pytest.raises(ImageAbsent):
        await engine.create_container(spec())


async def test_starting_what_is_not_there_is_told(engine: SimulatedEngine) -> None:
    with pytest.raises(EngineError, match="no longer on this host"):
        await engine.start_container("one")


async def test_a_container_runs_until_it_ends_and_is_then_removed(engine: SimulatedEngine) -> None:
    await pull(engine)
    container_id = await engine.create_container(spec())
    await engine.start_container("one")
    running = await engine.container(container_id)
    assert running is not None
    assert (running.state, running.running, running.exit_code) == ("running", True, None)
    with pytest.raises(EngineError) as raised:
        await engine.remove_container("one")
    assert raised.value.failure.failure_class is FailureClass.IN_USE

    engine.end_container("one", 3)

    ended = await engine.container("one")
    assert ended is not None
    assert (ended.state, ended.running, ended.exit_code) == ("exited", False, 3)
    assert ended.started_at is not None
    assert ended.ended_at is not None
    async with engine.container_log("one", follow=True) as pieces:
        assert [piece async for piece in pieces] == []
    await engine.remove_container("one")
    await engine.remove_container("one")
    assert await engine.containers() == []


async def test_stopping_ends_it_and_is_no_error_where_nothing_runs(
    engine: SimulatedEngine,
) -> None:
    await engine.stop_container("nosuch", 1)
    await pull(engine)
    await engine.create_container(spec())
    await engine.stop_container("one", 1)
    await engine.start_container("one")
    await engine.stop_container("one", 1)
    detail = await engine.container("one")
    assert detail is not None
    assert (detail.running, detail.exit_code) == (False, 143)


async def test_the_log_of_what_is_not_there_is_refused_on_entering(
    engine: SimulatedEngine,
) -> None:
    with pytest.raises(EngineError, match="no longer on this host"):
        async with engine.container_log("nosuch", follow=True):
            pytest.fail("entered")


async def test_changes_are_told_first_both_then_what_happened(engine: SimulatedEngine) -> None:
    changes = engine.changes()
    assert isinstance(changes, AsyncGenerator)
    async with asyncio.timeout(5), aclosing(changes):
        assert {await anext(changes), await anext(changes)} == set(Change)
        await pull(engine)
        assert await anext(changes) is Change.IMAGES
        await engine.create_container(spec())
        assert await anext(changes) is Change.CONTAINERS


async def test_one_that_died_fails_every_call_and_what_was_under_way() -> None:
    slow = SimulatedEngine(LIBRARY, bytes_per_second=1000.0)
    pulling = asyncio.create_task(pull(slow))
    changes = slow.changes()
    async with asyncio.timeout(5):
        await anext(changes)
        await anext(changes)
        slow.die()
        with pytest.raises(EngineError, match="does not answer"):
            await anext(changes)
        with pytest.raises(EngineError, match="does not answer"):
            await pulling
    with pytest.raises(EngineError, match="does not answer"):
        await slow.images()
    slow.revive()
    assert await slow.images() == []


async def test_what_was_there_is_there_when_it_is_back(engine: SimulatedEngine) -> None:
    await pull(engine)
    engine.die()
    engine.revive()
    assert [image.image_id for image in await engine.images()] == ["sha256:first"]


async def test_closing_leaves_it_as_it_is(engine: SimulatedEngine) -> None:
    await engine.close()
    assert (await engine.describe()).kind == "simulated"
