"""The engine's disk: told in reports, and never begun to be filled by what cannot fit."""

import asyncio
from collections.abc import Iterator

import pytest
from rig.engines import DockerEngine as Dockerd
from rig.orders import SampleImage, blob_gets, held, pull, remove, survey_pulls, survey_removals
from rig.recording_manager import RecordingManager
from rig.registry import Registry

from wharfinger.contracts.ingest import ImagePullFailed, ImagePullFinished
from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.failures import FailureClass

pytestmark = pytest.mark.usefixtures("agent")
MIB = 1024 * 1024
DISK = 64 * MIB


@pytest.fixture(scope="module")
def dockerd_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dockerd]:
    with Dockerd(tmp_path_factory.mktemp("dockerd"), disk_size=DISK) as engine:
        yield engine


async def disk(manager: RecordingManager) -> DiskSpace:
    """As a survey tells it now."""
    return DiskSpace.model_validate((await survey_pulls(manager))["disk"])


async def refusal(manager: RecordingManager, attempt_id: str) -> str:
    """Why an attempt was not begun."""
    end = await manager.end_of(attempt_id)
    assert isinstance(end, ImagePullFailed)
    assert end.failure.failure_class is FailureClass.NO_SPACE
    assert [event for event in manager.events if event.attempt_id == attempt_id] == [end]
    return end.failure.message


async def test_reports_tell_the_disk_of_the_engines_images(manager: RecordingManager) -> None:
    await manager.until(lambda: manager.last.disk is not None)
    assert manager.last.disk is not None
    assert manager.last.disk.total == DISK
    assert 0 < manager.last.disk.free < DISK


async def test_what_cannot_fit_is_not_begun_and_would_have_failed(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry, size=36 * MIB, layers=1)
    await pull(manager, image.order("t1"))
    message = await refusal(manager, "t1")
    assert message.startswith("needs at least 72.0 MiB for 36.0 MiB to download, ")
    assert " are free of 64.0 MiB and 0 B is to stay free" in message
    assert blob_gets(registry, image) == []
    with pytest.raises(AssertionError, match="no space left on device"):
        await asyncio.to_thread(dockerd.pull, image.tag)


async def test_a_margin_is_kept_free_but_what_is_there_is_never_refused(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry, size=4 * MIB, layers=2)
    await pull(manager, image.order("t1", disk_margin=DISK))
    assert "64.0 MiB is to stay free" in await refusal(manager, "t1")
    await pull(manager, image.order("t2", disk_margin=8 * MIB))
    assert isinstance(await manager.end_of("t2"), ImagePullFinished)
    other = f"{image.name}:other"
    await pull(manager, image.order("t3", reference=other, disk_margin=DISK))
    assert isinstance(await manager.end_of("t3"), ImagePullFinished)
    assert held(dockerd, other) is not None


async def test_what_a_pull_and_a_removal_are_said_to_take_is_what_the_disk_shows(
    manager: RecordingManager, registry: Registry
) -> None:
    image = SampleImage(registry, size=5 * MIB, layers=3)
    before = (await disk(manager)).free
    (survey,) = (await survey_pulls(manager, image.order("t1")))["surveys"]
    await pull(manager, image.order("t1"))
    await manager.end_of("t1")
    [removal] = await survey_removals(manager, image.tag)
    between = (await disk(manager)).free
    await remove(manager, image.tag)
    after = (await disk(manager)).free
    assert survey["bytesMissing"] == pytest.approx(before - between, rel=0.05)
    assert removal["bytesFreed"] == pytest.approx(after - between, rel=0.05)
