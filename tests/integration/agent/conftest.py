"""A real engine, a real registry with a fault proxy before it, and agents beside them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from rig.agents import RunningAgent, StartAgent, running
from rig.engines import DockerEngine as Dockerd
from rig.proxy import FaultProxy
from rig.recording_manager import RecordingManager
from rig.registry import Registry

from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.service import AgentSettings


@pytest.fixture(scope="module")
def dockerd_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dockerd]:
    with Dockerd(tmp_path_factory.mktemp("dockerd")) as engine:
        yield engine


@pytest.fixture
def dockerd(dockerd_process: Dockerd) -> Iterator[Dockerd]:
    """A running engine without images."""
    if not dockerd_process.running:
        dockerd_process.start()
    yield dockerd_process
    if dockerd_process.running:
        dockerd_process.clear()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture
def proxy(registry: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(registry.host) as before:
        yield before


@pytest.fixture
async def manager() -> AsyncIterator[RecordingManager]:
    async with RecordingManager().serving() as recording:
        yield recording


@pytest.fixture
async def start_agent(
    dockerd: Dockerd, manager: RecordingManager, tmp_path: Path
) -> AsyncIterator[StartAgent]:
    """Start an agent and wait until it has registered; all end with the test."""
    async with AsyncExitStack() as stack:

        async def start(*, registered: bool = True, **changes: Any) -> RunningAgent:
            settings: dict[str, Any] = {
                "agent_id": "a1",
                "scaling_group": "default",
                "manager_url": manager.url,
                "state_dir": tmp_path / "agent",
                "join_token": manager.JOIN_TOKEN,
            } | changes
            engine = DockerEngine(dockerd.url)
            stack.push_async_callback(engine.close)
            started = await stack.enter_async_context(running(AgentSettings(**settings), engine))
            if registered:
                await started.registered()
            return started

        yield start


@pytest.fixture
async def agent(start_agent: StartAgent, manager: RecordingManager) -> RunningAgent:
    """One agent whose first listing the manager has heard."""
    started = await start_agent()
    await manager.until(lambda: any(report.inventory for report in manager.reports))
    return started
