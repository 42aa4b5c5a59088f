"""What the manager hears of images, when hands and engines change them."""

import asyncio
import time

import pytest
from rig.agents import StartAgent
from rig.engines import DockerEngine as Dockerd
from rig.orders import SampleImage
from rig.recording_manager import RecordingManager
from rig.registry import Registry


@pytest.mark.usefixtures("agent")
async def test_what_hands_pull_and_remove_shows_within_two_seconds(
    manager: RecordingManager, registry: Registry, dockerd: Dockerd
) -> None:
    image = SampleImage(registry)
    await asyncio.to_thread(dockerd.pull, image.tag)
    began = time.monotonic()
    await manager.until(lambda: image.tag in manager.images())
    assert time.monotonic() - began < 2
    assert manager.images()[image.pinned] == image.pushed.config_digest

    await asyncio.to_thread(dockerd.api, "DELETE", f"/images/{image.tag}")
    began = time.monotonic()
    await manager.until(lambda: image.tag not in manager.images())
    assert time.monotonic() - began < 2


@pytest.mark.usefixtures("agent")
async def test_a_listing_is_sent_once_and_named_in_every_report(
    manager: RecordingManager,
) -> None:
    # the first reports may begin before the acknowledgement of the first listing
    first = next(n for n, report in enumerate(manager.reports) if report.inventory)
    await manager.until(lambda: len(manager.reports) > first + 5)
    later = manager.reports[first + 1 :]
    assert all(report.inventory is None for report in later)
    assert {report.inventory_version for report in later} == {
        manager.reports[first].inventory_version
    }


async def test_an_agent_beside_a_dead_engine_joins_and_recovers(
    start_agent: StartAgent, manager: RecordingManager, dockerd: Dockerd
) -> None:
    await asyncio.to_thread(dockerd.stop)
    await start_agent()
    assert manager.registration.engine is None
    assert (manager.registration.os, manager.registration.architecture) == ("linux", "amd64")
    await manager.until(lambda: bool(manager.reports))
    assert manager.last.engine is not None
    assert manager.last.engine.problem
    assert manager.last.inventory_version == ""

    await asyncio.to_thread(dockerd.start)
    await manager.until(lambda: bool(manager.last.inventory_version))
    assert manager.last.engine is not None
    assert manager.last.engine.problem == ""
    assert manager.last.engine.kind == "docker"
