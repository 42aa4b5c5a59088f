"""What removals and pulls would meet, on a real engine through the agent's real RPC."""

import asyncio

import pytest
from rig.engines import DockerEngine as Dockerd
from rig.images import LayerBlob, busybox_layer, push, random_layer
from rig.orders import (
    SampleImage,
    blob_gets,
    create,
    held,
    kernel,
    pull,
    remove,
    survey_pulls,
    survey_removals,
)
from rig.recording_manager import RecordingManager
from rig.registry import Registry

pytestmark = pytest.mark.usefixtures("agent")
MIB = 1024 * 1024


def image_of(registry: Registry, *layers: LayerBlob) -> SampleImage:
    """An image of these layers in a repository of its own."""
    image = SampleImage(registry)
    image.pushed = push(registry.host, image.repository, "v1", layers)
    return image


async def preload(manager: RecordingManager, *images: SampleImage) -> None:
    for image in images:
        await pull(manager, image.order(image.tag))
        await manager.end_of(image.tag)


def bytes_of_layers(dockerd: Dockerd) -> int:
    """What the engine itself says all layers take."""
    status, body = dockerd.api("GET", "/system/df")
    assert status == 200
    return int(body["LayersSize"])


async def test_a_survey_of_a_removal_names_what_goes_and_what_stays_and_changes_nothing(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await preload(manager, image)
    dockerd.api("POST", f"/images/{image.tag}/tag?repo=example.org/kept&tag=v1")
    there, absent = await survey_removals(manager, image.tag, f"{image.name}:absent")
    assert there["imageId"] == image.pushed.config_digest
    assert there["rootDigests"] == [image.pushed.root_digest]
    assert there["going"] == [image.tag, image.pinned]
    assert there["keptBy"] == ["example.org/kept:v1"]
    assert there["users"] == []
    assert there["bytesFreed"] == 0
    assert absent["imageId"] is None
    assert held(dockerd, image.tag) is not None


async def test_every_container_of_the_image_is_told_ours_with_its_kernel(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = image_of(registry, busybox_layer())
    await preload(manager, image)
    await create(manager, kernel("k1", image.pushed.config_digest))
    await asyncio.to_thread(dockerd.create_container, image.tag, "foreign")
    [survey] = await survey_removals(manager, image.tag, want_bytes=False)
    users = {each["name"]: (each["state"], each["kernelId"]) for each in survey["users"]}
    assert users == {"wharfinger-k1": ("running", "k1"), "foreign": ("created", None)}
    assert survey["bytesFreed"] is None


async def test_the_bytes_a_removal_frees_are_those_the_engine_has_less_afterwards(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    base = [random_layer("base", 3 * MIB), random_layer("tools", MIB)]
    one = image_of(registry, *base, random_layer("one", 2 * MIB))
    other = image_of(registry, *base, random_layer("other", 4 * MIB), random_layer("more", MIB))
    await preload(manager, one, other)
    for image in (one, other):  # the first goes from beside the other, which then goes alone
        [survey] = await survey_removals(manager, image.tag)
        before = await asyncio.to_thread(bytes_of_layers, dockerd)
        await remove(manager, image.tag, prefix=image.tag)
        freed = before - await asyncio.to_thread(bytes_of_layers, dockerd)
        assert survey["bytesFreed"] == pytest.approx(freed, rel=0.02)
    assert await asyncio.to_thread(bytes_of_layers, dockerd) == 0


async def test_a_removal_of_one_image_leaves_the_tag_that_moved_to_another(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image, newer = SampleImage(registry), SampleImage(registry)
    await preload(manager, image, newer)
    [survey] = await survey_removals(manager, image.tag, want_bytes=False)
    repository, _, tag = image.tag.rpartition(":")
    dockerd.api("POST", f"/images/{newer.tag}/tag?repo={repository}&tag={tag}")
    [changed] = await remove(manager, image.tag, image_id=survey["imageId"])
    assert changed["outcome"] == "changed"
    moved = held(dockerd, image.tag)
    assert moved is not None
    [again] = await survey_removals(manager, image.tag, want_bytes=False)
    assert again["imageId"] == moved["Id"]
    [removed] = await remove(manager, image.tag, image_id=again["imageId"], prefix="again")
    assert removed["outcome"] == "removed"


async def test_a_pull_misses_exactly_what_is_then_downloaded(
    manager: RecordingManager, registry: Registry
) -> None:
    base = [random_layer("base", 64_000), random_layer("tools", 64_000)]
    there = image_of(registry, *base, random_layer("there", 1000))
    top = [random_layer("top", 50_000), random_layer("last", 7_000)]
    wanted = image_of(registry, *base, *top)
    await preload(manager, there)

    reply = await survey_pulls(manager, wanted.order("t1"), there.order("t2"))

    missing, present = reply["surveys"]
    sizes = [layer.size for layer in top]
    assert missing["bytesMissing"] == sum(sizes)
    assert missing["bytesNeeded"] == max(2 * sizes[0], sum(sizes) + sizes[1])
    assert missing["layersKnown"] is True
    assert missing["evidence"] is None
    assert (present["bytesMissing"], present["bytesNeeded"]) == (0, 0)
    assert present["evidence"]["tags"] == [there.tag]
    assert reply["disk"]["free"] > 0
    await preload(manager, wanted)
    config = wanted.pushed.config_digest
    assert blob_gets(registry, wanted) == sorted([*(layer.digest for layer in top), config])


async def test_without_diff_ids_every_layer_counts_as_missing(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry)
    (survey,) = (await survey_pulls(manager, image.order("t1") | {"diffIds": []}))["surveys"]
    assert survey["bytesMissing"] == sum(layer.size for layer in image.layers)
    assert survey["layersKnown"] is False
