"""check-and-pull and cancel, on a real engine through the agent's real RPC."""

import asyncio
import re
from pathlib import Path

import pytest
from rig.engines import DockerEngine as Dockerd
from rig.images import push, push_index, random_layer
from rig.orders import SampleImage, blob_gets, cancel, held, pull
from rig.proxy import FaultProxy, Rate
from rig.recording_manager import RecordingManager
from rig.registry import Registry

from wharfinger.contracts.ingest import ImagePullFailed, ImagePullFinished, ImagePullStarted
from wharfinger.domain.failures import FailureClass

pytestmark = pytest.mark.usefixtures("agent")
MIB = 1024 * 1024


async def test_a_pull_ends_with_the_digest_the_tag_and_the_evidence(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    (answer,) = await pull(manager, image.order("t1"))
    assert answer["outcome"] == "pulling"
    assert answer["taskId"]
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFinished)
    assert end.evidence.tags == (image.tag,)
    assert end.evidence.digests == (image.pinned,)
    assert end.evidence.image_id == image.pushed.config_digest
    on_engine = held(dockerd, image.tag)
    assert on_engine is not None
    assert on_engine["RepoDigests"] == [image.pinned]
    kinds = [type(event) for event in manager.events if event.attempt_id == "t1"]
    assert kinds == [ImagePullStarted, ImagePullFinished]


async def test_a_repeated_order_is_answered_with_the_end_it_had(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await pull(manager, image.order("t1"))
    (again,) = await pull(manager, image.order("t1"))
    await manager.end_of("t1")
    dockerd.clear()
    (late,) = await pull(manager, image.order("t1"))
    assert again["outcome"] == "pulling"
    assert late["outcome"] == "present"
    assert held(dockerd, image.tag) is None
    assert len(manager.ends("t1")) == 1


async def test_what_is_there_is_answered_present_without_a_request(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry)
    await pull(manager, image.order("t1"))
    await manager.end_of("t1")
    before = len(registry.requests())
    checked, ordered = await pull(manager, image.order("t2", policy="check"), image.order("t3"))
    assert checked["outcome"] == ordered["outcome"] == "present"
    assert ordered["evidence"]["tags"] == [image.tag]
    assert len(registry.requests()) == before


async def test_a_check_of_what_is_absent_begins_nothing(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry)
    (answer,) = await pull(manager, image.order("t1", policy="check"))
    assert answer["outcome"] == "absent"
    assert manager.last.in_hand == ()


async def test_two_attempts_share_one_pull_and_end_together(
    manager: RecordingManager,
    registry: Registry,
    proxy: FaultProxy,
    dockerd: Dockerd,
) -> None:
    image = SampleImage(registry, via=proxy, size=MIB)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=MIB))
    (first,) = await pull(manager, image.order("t1"))
    await asyncio.to_thread(proxy.wait_for, "GET .*/blobs/", sent=100_000)
    (second,) = await pull(manager, image.order("t2", reference=f"{image.name}:other"))
    assert first["taskId"] == second["taskId"]
    assert manager.ends("t1") == []
    ends = [await manager.end_of(attempt) for attempt in ("t1", "t2")]
    assert all(isinstance(end, ImagePullFinished) for end in ends)
    blobs = sorted([*(layer.digest for layer in image.layers), image.pushed.config_digest])
    assert blob_gets(registry, image) == blobs
    on_engine = held(dockerd, image.pinned)
    assert on_engine is not None
    assert sorted(on_engine["RepoTags"]) == [f"{image.name}:other", image.tag]


async def test_cancelling_one_of_two_leaves_the_pull_to_the_other(
    manager: RecordingManager, registry: Registry, proxy: FaultProxy
) -> None:
    image = SampleImage(registry, via=proxy, size=MIB)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=MIB))
    await pull(manager, image.order("t1"), image.order("t2"))
    await asyncio.to_thread(proxy.wait_for, "GET .*/blobs/", sent=100_000)
    assert await cancel(manager, "t1") == ["aborted"]
    gone, stays = await manager.end_of("t1"), await manager.end_of("t2")
    assert isinstance(gone, ImagePullFailed)
    assert gone.failure.failure_class is FailureClass.CANCELLED
    assert isinstance(stays, ImagePullFinished)
    assert gone.sequence < stays.sequence


async def test_cancelling_all_stops_the_bytes_and_leaves_nothing(
    manager: RecordingManager,
    registry: Registry,
    proxy: FaultProxy,
    dockerd: Dockerd,
) -> None:
    image = SampleImage(registry, via=proxy, size=4 * MIB)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=MIB))
    await pull(manager, image.order("t1"), image.order("t2"))
    await asyncio.to_thread(proxy.wait_for, "GET .*/blobs/", sent=200_000)
    assert await cancel(manager, "t1", "t2") == ["aborted", "aborted"]
    await manager.end_of("t1")
    await manager.end_of("t2")
    for exchange in proxy.log:
        await asyncio.to_thread(
            proxy.wait_for, re.escape(f"{exchange.method} {exchange.path}"), ended=True
        )
    assert any(exchange.client_left for exchange in proxy.log)
    assert held(dockerd, image.pinned) is None
    assert held(dockerd, image.tag) is None


async def test_a_cancelled_image_can_be_ordered_anew_at_once(
    manager: RecordingManager, registry: Registry, proxy: FaultProxy
) -> None:
    image = SampleImage(registry, via=proxy, size=4 * MIB)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=MIB))
    await pull(manager, image.order("t1"))
    await asyncio.to_thread(proxy.wait_for, "GET .*/blobs/", sent=200_000)
    outcomes, (answer,) = await asyncio.gather(
        cancel(manager, "t1"), pull(manager, image.order("t2"))
    )
    proxy.rules()
    assert outcomes == ["aborted"]
    assert answer["outcome"] == "pulling"
    assert isinstance(await manager.end_of("t2"), ImagePullFinished)


async def test_an_order_that_comes_after_its_cancel_is_not_begun(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry)
    assert await cancel(manager, "t1") == ["aborted"]
    (answer,) = await pull(manager, image.order("t1"))
    assert answer["outcome"] == "aborted"
    assert manager.events == []


async def test_a_preload_moves_a_tag_and_a_session_does_not(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await pull(manager, image.order("t1"))
    await manager.end_of("t1")
    newer = push(registry.host, image.repository, "v1", [random_layer("g", 1000)])
    (session,) = await pull(manager, image.order("t2", pushed=newer, policy="session"))
    assert session["outcome"] == "pulling"
    end = await manager.end_of("t2")
    assert isinstance(end, ImagePullFinished)
    assert end.evidence.image_id == newer.config_digest
    tagged = held(dockerd, image.tag)
    assert tagged is not None
    assert tagged["Id"] == image.pushed.config_digest

    (preload,) = await pull(manager, image.order("t3", pushed=newer))
    assert preload["outcome"] == "pulling", "the digest is there, the tag is not on it"
    moved = await manager.end_of("t3")
    assert isinstance(moved, ImagePullFinished)
    assert moved.evidence.tags == (image.tag,)


async def test_a_session_sets_a_tag_where_there_is_none(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry)
    await pull(manager, image.order("t1", policy="session"))
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFinished)
    assert end.evidence.tags == (image.tag,)


async def test_a_reference_by_digest_alone_gets_no_tag(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry)
    await pull(manager, image.order("t1", reference=image.pinned))
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFinished)
    assert end.evidence.tags == ()
    assert end.evidence.digests == (image.pinned,)


async def test_an_image_for_another_platform_fails_and_does_not_stay(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry, architecture="arm64")
    await pull(manager, image.order("t1"))
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFailed)
    assert end.failure.failure_class is FailureClass.WRONG_PLATFORM
    assert "linux/arm64" in end.failure.message
    assert held(dockerd, image.pinned) is None


async def test_a_foreign_image_that_was_there_before_stays(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry, architecture="arm64")
    await asyncio.to_thread(dockerd.pull, image.tag)
    await pull(manager, image.order("t1"))
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFailed)
    assert end.failure.failure_class is FailureClass.WRONG_PLATFORM
    assert held(dockerd, image.tag) is not None


async def test_an_index_is_present_under_its_own_digest(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry)
    foreign = push(
        registry.host, image.repository, "arm", [random_layer("f", 1000)], architecture="arm64"
    )
    index = push_index(
        registry.host,
        image.repository,
        "v1",
        {("linux", "arm64", ""): foreign, ("linux", "amd64", ""): image.pushed},
    )
    order = image.order("t1") | {"rootDigest": index.root_digest}
    await pull(manager, order)
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFinished)
    assert f"{image.name}@{index.root_digest}" in end.evidence.digests
    assert end.evidence.image_id == image.pushed.config_digest
    assert end.evidence.architecture == "amd64"


async def test_credentials_reach_the_registry_with_their_attempt_alone(
    manager: RecordingManager, tmp_path: Path
) -> None:
    with Registry(tmp_path / "guarded", users={"alice": "secret"}) as guarded:
        image = SampleImage(guarded, credentials=("alice", "secret"))
        await pull(manager, image.order("t1"))
        refused = await manager.end_of("t1")
        assert isinstance(refused, ImagePullFailed)
        assert refused.failure.failure_class is FailureClass.AUTH
        credentials = {"username": "alice", "password": "secret"}
        await pull(manager, image.order("t2") | {"credentials": credentials})
        assert isinstance(await manager.end_of("t2"), ImagePullFinished)


async def test_a_digest_the_registry_lacks_is_not_found(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry)
    order = image.order("t1") | {"rootDigest": "sha256:" + "ab" * 32}
    await pull(manager, order)
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFailed)
    assert end.failure.failure_class is FailureClass.NOT_FOUND


async def test_progress_counts_the_manifests_bytes_and_never_falls(
    manager: RecordingManager, registry: Registry, proxy: FaultProxy
) -> None:
    image = SampleImage(registry, via=proxy, size=MIB)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=MIB))
    await pull(manager, image.order("t1"))
    await manager.end_of("t1")
    steps = [each for report in manager.reports for each in report.progress]
    done = [step.bytes_done for step in steps]
    assert len(done) >= 3
    assert done == sorted(done)
    assert {step.bytes_total for step in steps} == {sum(layer.size for layer in image.layers)}
    assert max(done) < steps[0].bytes_total
    assert any(step.bytes_per_second for step in steps)


async def test_an_engine_killed_in_the_middle_ends_the_attempt_and_recovers(
    manager: RecordingManager,
    registry: Registry,
    proxy: FaultProxy,
    dockerd: Dockerd,
) -> None:
    image = SampleImage(registry, via=proxy, size=MIB)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=MIB // 4))
    await pull(manager, image.order("t1"))
    await asyncio.to_thread(proxy.wait_for, "GET .*/blobs/", sent=100_000)
    await asyncio.to_thread(dockerd.kill)
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFailed)
    assert end.failure.failure_class is FailureClass.ENGINE_ERROR
    await manager.until(lambda: bool(manager.last.engine and manager.last.engine.problem))

    (dead,) = await pull(manager, image.order("t2"))
    assert dead["outcome"] == "pulling"
    assert isinstance(await manager.end_of("t2"), ImagePullFailed)

    proxy.rules()
    await asyncio.to_thread(dockerd.start)
    await manager.until(lambda: bool(manager.last.engine and not manager.last.engine.problem))
    await pull(manager, image.order("t3"))
    assert isinstance(await manager.end_of("t3"), ImagePullFinished)


@pytest.mark.parametrize("reference", ["UPPER/case:v1", ""])
async def test_an_order_for_what_is_no_reference_fails_at_once(
    manager: RecordingManager, registry: Registry, reference: str
) -> None:
    order = SampleImage(registry).order("t1") | {"reference": reference}
    (answer,) = await pull(manager, order)
    assert answer["outcome"] == "failed"
    assert answer["failure"]["failureClass"] == "invalid-reference"
