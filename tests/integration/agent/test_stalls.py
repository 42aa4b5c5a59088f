"""Pulls that make no progress, on a real engine behind a proxy that stalls."""

import asyncio

from rig.agents import StartAgent
from rig.engines import DockerEngine as Dockerd
from rig.orders import SampleImage, held, pull
from rig.proxy import FaultProxy, Rate, Stall
from rig.recording_manager import RecordingManager
from rig.registry import Registry

from wharfinger.contracts.ingest import ImagePullFailed, ImagePullFinished
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.progress import Phase

MIB = 1024 * 1024


async def test_a_pull_without_progress_is_stalled_and_aborted(
    start_agent: StartAgent,
    manager: RecordingManager,
    registry: Registry,
    proxy: FaultProxy,
    dockerd: Dockerd,
) -> None:
    await start_agent(inactivity_seconds=1.0)
    image = SampleImage(registry, via=proxy, size=MIB, layers=1)
    proxy.rules(Stall(match=image.layers[0].digest, after=300_000))
    await pull(manager, image.order("t1"))
    end = await manager.end_of("t1")
    assert isinstance(end, ImagePullFailed)
    assert end.failure.failure_class is FailureClass.STALLED
    assert held(dockerd, image.pinned) is None
    proxy.rules()
    await pull(manager, image.order("t2"))
    assert isinstance(await manager.end_of("t2"), ImagePullFinished)


async def test_a_pull_queued_behind_others_of_the_daemon_is_not_stalled(
    start_agent: StartAgent, manager: RecordingManager, registry: Registry, proxy: FaultProxy
) -> None:
    # three slow layers fill the daemon's slots for longer than the limit
    await start_agent(inactivity_seconds=1.0)
    slow = SampleImage(registry, via=proxy, size=MIB, layers=3)
    quick = SampleImage(registry, layers=1)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=MIB // 3))
    await pull(manager, slow.order("t1"))
    for layer in slow.layers:
        await asyncio.to_thread(proxy.wait_for, f"GET .*{layer.digest}", sent=1)
    await pull(manager, quick.order("t2"))
    ends = [await manager.end_of(attempt) for attempt in ("t1", "t2")]
    assert all(isinstance(end, ImagePullFinished) for end in ends)
    phases = {
        each.phase
        for report in manager.reports
        for each in report.progress
        if each.attempt_id == "t2"
    }
    assert Phase.WAITING in phases
