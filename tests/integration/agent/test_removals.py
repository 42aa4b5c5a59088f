"""remove-images, on a real engine through the agent's real RPC."""

import asyncio

import pytest
from rig.engines import DockerEngine as Dockerd
from rig.images import busybox_layer, push
from rig.orders import SampleImage, held, pull, remove
from rig.proxy import Delay, FaultProxy
from rig.recording_manager import RecordingManager
from rig.registry import Registry

from wharfinger.contracts.ingest import ImagePullFinished

pytestmark = pytest.mark.usefixtures("agent")


async def preload(manager: RecordingManager, image: SampleImage, *references: str) -> None:
    for reference in references or (image.tag,):
        await pull(manager, image.order(reference, reference=reference))
        await manager.end_of(reference)


async def test_the_last_tag_takes_the_image_with_it(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await preload(manager, image)
    (answer,) = await remove(manager, image.tag)
    assert answer["outcome"] == "removed"
    assert answer["keptBy"] == []
    assert held(dockerd, image.pushed.config_digest) is None


async def test_one_of_two_tags_goes_alone_and_the_rest_is_named(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    other = f"{image.name}:other"
    await preload(manager, image, image.tag, other)
    (answer,) = await remove(manager, image.tag)
    assert answer["outcome"] == "removed"
    assert answer["keptBy"] == [other, image.pinned]
    assert held(dockerd, image.tag) is None
    assert held(dockerd, other) is not None


async def test_another_repository_keeps_the_image(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await preload(manager, image)
    elsewhere = "example.org/kept:v1"
    dockerd.api("POST", f"/images/{image.tag}/tag?repo=example.org/kept&tag=v1")
    (answer,) = await remove(manager, image.tag)
    assert answer["outcome"] == "removed"
    assert answer["keptBy"] == [elsewhere]


async def test_a_digest_means_every_name_of_its_repository(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await preload(manager, image, image.tag, f"{image.name}:other")
    (answer,) = await remove(manager, image.pinned)
    assert answer["outcome"] == "removed"
    assert held(dockerd, image.pushed.config_digest) is None


async def test_a_tag_with_a_digest_goes_only_where_it_is_at_the_digest(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await preload(manager, image)
    elsewhere = f"{image.tag}@sha256:{'ab' * 32}"
    there = f"{image.tag}@{image.pushed.root_digest}"
    not_there, removed = await remove(manager, elsewhere, there)
    assert not_there["outcome"] == "absent"
    assert removed["outcome"] == "removed"
    assert held(dockerd, image.pushed.config_digest) is None


async def test_what_is_not_there_is_absent(manager: RecordingManager, registry: Registry) -> None:
    image = SampleImage(registry)
    answers = await remove(manager, image.tag, image.pinned)
    assert [answer["outcome"] for answer in answers] == ["absent", "absent"]


@pytest.mark.parametrize(("started", "state"), [(True, "running"), (False, "created")])
async def test_an_image_any_container_uses_stays_even_with_other_tags(
    manager: RecordingManager,
    registry: Registry,
    dockerd: Dockerd,
    started: bool,
    state: str,
) -> None:
    image = SampleImage(registry)
    image.pushed = push(registry.host, image.repository, "v1", [busybox_layer()])
    await preload(manager, image, image.tag, f"{image.name}:other")
    await asyncio.to_thread(dockerd.create_container, image.tag, f"user-{state}", start=started)
    (answer,) = await remove(manager, f"{image.name}:other")
    assert answer["outcome"] == "failed"
    assert answer["failure"]["failureClass"] == "in-use"
    assert f"user-{state} ({state})" in answer["failure"]["message"]
    assert held(dockerd, f"{image.name}:other") is not None


async def test_a_repeated_removal_is_answered_with_the_end_it_had(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await preload(manager, image)
    await remove(manager, image.tag)
    await asyncio.to_thread(dockerd.pull, image.tag)
    (again,) = await remove(manager, image.tag)
    assert again["outcome"] == "removed"
    assert held(dockerd, image.tag) is not None


async def test_a_removal_waits_for_a_pull_of_its_digest_under_another_name(
    manager: RecordingManager, registry: Registry, proxy: FaultProxy, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await preload(manager, image)
    elsewhere = f"{proxy.host}/{image.repository}:v1"
    proxy.forget()
    proxy.rules(Delay(match="GET /v2/$", seconds=60))
    await pull(manager, image.order("t2", reference=elsewhere))
    await asyncio.to_thread(proxy.wait_for, "GET /v2/$")
    (early,) = await remove(manager, image.tag, deadline=0.5)
    assert early["outcome"] == "running"
    assert held(dockerd, image.tag) is not None
    proxy.rules()
    assert isinstance(await manager.end_of("t2"), ImagePullFinished)
    (late,) = await remove(manager, image.tag)
    assert late["outcome"] == "removed"
    assert held(dockerd, image.tag) is None
    assert held(dockerd, elsewhere) is not None


async def test_a_pull_brings_what_a_removal_takes_meanwhile(
    manager: RecordingManager, registry: Registry, proxy: FaultProxy, dockerd: Dockerd
) -> None:
    # the id is on the host under another name alone, and a slow pull brings its digest anew
    image = SampleImage(registry, via=proxy)
    await preload(manager, image)
    dockerd.api("POST", f"/images/{image.tag}/tag?repo=example.org/kept&tag=v1")
    await remove(manager, image.pinned, prefix="first")
    proxy.forget()
    proxy.rules(Delay(match="GET /v2/$", seconds=60))
    await pull(manager, image.order("t2"))
    await asyncio.to_thread(proxy.wait_for, "GET /v2/$")
    (removed,) = await remove(manager, "example.org/kept:v1")
    assert removed["outcome"] == "removed"
    assert held(dockerd, image.pushed.config_digest) is None
    proxy.rules()
    assert isinstance(await manager.end_of("t2"), ImagePullFinished)
    assert held(dockerd, image.tag) is not None


async def test_an_engine_that_does_not_answer_leaves_the_removal_running(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await preload(manager, image)
    dockerd.pause()
    try:
        (early,) = await remove(manager, image.tag, deadline=0.5)
    finally:
        dockerd.resume()
    (late,) = await remove(manager, image.tag)
    assert early["outcome"] == "running"
    assert late["outcome"] == "removed"
