"""A container whose files cannot be deleted, on a real daemon."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rig import images
from rig.engines import DockerEngine as DockerDaemon
from rig.processes import wait_until
from rig.registry import Registry

from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.engine.port import EngineError


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerDaemon]:
    with DockerDaemon(tmp_path_factory.mktemp("stuck")) as daemon:
        yield daemon


@pytest.fixture
def container_id(daemon: DockerDaemon, tmp_path: Path) -> str:
    """One that ended with 3."""
    with Registry(tmp_path / "registry") as registry:
        images.push(registry.host, "lab/run", "v1", [images.busybox_layer()])
        name = f"{registry.host}/lab/run:v1"
        daemon.pull(name)
    command = ("/bin/sh", "-c", "exit 3")
    container_id = daemon.create_container(name, "one", command=command, start=True)
    path = f"/containers/{container_id}/json"
    assert wait_until(lambda: not daemon.api("GET", path)[1]["State"]["Running"], within=10)
    return container_id


@pytest.fixture
def stuck(daemon: DockerDaemon, container_id: str) -> Iterator[Path]:
    """A file of its that nobody may delete."""
    path = daemon.folder / "root" / "containers" / container_id / "stuck"
    path.touch()
    if subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode:
        pytest.skip("this file system knows no immutable files")
    yield path
    _release(path)


@pytest.fixture
async def engine(daemon: DockerDaemon) -> AsyncIterator[DockerEngine]:
    engine = DockerEngine(daemon.url)
    yield engine
    await engine.close()


def _release(path: Path) -> None:
    if path.exists():
        subprocess.run(["chattr", "-i", path], check=True)


async def test_a_container_stuck_in_its_removal_says_why_until_it_can_be_removed(
    engine: DockerEngine, stuck: Path
) -> None:
    for _ in range(2):
        with pytest.raises(EngineError, match="not allowed to do this"):
            await engine.remove_container("one")

    detail = await engine.container("one")
    assert detail is not None
    assert (detail.state, detail.running, detail.exit_code) == ("dead", False, 3)
    assert str(stuck) in detail.problem
    assert [each.state for each in await engine.containers()] == ["removing"]
    await engine.stop_container("one", 1)

    _release(stuck)
    await engine.remove_container("one")
    assert await engine.container("one") is None
