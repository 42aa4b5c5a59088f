"""A small real cluster: two engines in two scaling groups, a registry, and the programs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.engines import DockerEngine
from rig.proxy import FaultProxy
from rig.registry import Registry
from rig.server import Server


@pytest.fixture(scope="session")
def _engines(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[DockerEngine, DockerEngine]]:
    with (
        DockerEngine(tmp_path_factory.mktemp("left")) as left,
        DockerEngine(tmp_path_factory.mktemp("right")) as right,
    ):
        yield left, right


@pytest.fixture
def engines(
    _engines: tuple[DockerEngine, DockerEngine],
) -> tuple[DockerEngine, DockerEngine]:
    """Two engines that run and hold nothing."""
    for engine in _engines:
        if not engine.running:
            engine.start()
        engine.clear()
    return _engines


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def proxy(registry: Registry) -> Iterator[FaultProxy]:
    """Before the registry; faithful until told otherwise."""
    with FaultProxy(registry.host) as running:
        yield running


@pytest.fixture
def server(
    tmp_path: Path,
    engines: tuple[DockerEngine, DockerEngine],
    registry: Registry,
    proxy: FaultProxy,
) -> Iterator[Server]:
    """`wharfinger up` with an agent per engine (`left-1`, `right-1`), knowing both registries."""
    groups = zip(("left", "right"), engines, strict=True)
    with Server(tmp_path / "wharfinger", list(groups)) as running:
        running.agents_up()
        for host in (registry.host, proxy.host):
            added = running.cli("registry", "add", f"http://{host}")
            assert added.code == 0, added.err
        yield running
