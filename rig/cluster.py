"""Fixtures of a small real cluster: two engines in two scaling groups, a registry, the programs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.engines import DockerEngine
from rig.proxy import FaultProxy
from rig.registry import Registry
from rig.server import Server

Engines = tuple[DockerEngine, DockerEngine]


@pytest.fixture(scope="session")
def _engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with (
        DockerEngine(tmp_path_factory.mktemp("left")) as left,
        DockerEngine(tmp_path_factory.mktemp("right")) as right,
    ):
        yield left, right


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def _proxy(registry: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(registry.host) as running:
        yield running


@pytest.fixture
def engines(_engines: Engines) -> Engines:
    """Two engines that run and hold nothing."""
    for engine in _engines:
        if not engine.running:
            engine.start()
        engine.clear()
    return _engines


@pytest.fixture
def proxy(_proxy: FaultProxy) -> FaultProxy:
    """Before the registry; faithful until told otherwise."""
    _proxy.rules()
    _proxy.forget()
    return _proxy


@pytest.fixture(scope="module")
def _server(
    tmp_path_factory: pytest.TempPathFactory,
    _engines: Engines,
    registry: Registry,
    _proxy: FaultProxy,
) -> Iterator[Server]:
    with _started(tmp_path_factory.mktemp("server"), _engines, registry, _proxy) as running:
        yield running


@pytest.fixture
def server(_server: Server, engines: Engines, proxy: FaultProxy) -> Server:  # noqa: ARG001
    """`wharfinger up` with an agent per engine (`left-1`, `right-1`), knowing the registry and the
    proxy before it. The tests of a module share it."""
    _server.agents_up()
    return _server


@pytest.fixture
def own_server(
    tmp_path: Path, engines: Engines, registry: Registry, proxy: FaultProxy
) -> Iterator[Server]:
    """The same for one test alone, which may kill it or take it apart."""
    with _started(tmp_path / "server", engines, registry, proxy) as running:
        yield running


def _started(folder: Path, engines: Engines, registry: Registry, proxy: FaultProxy) -> Server:
    groups = zip(("left", "right"), engines, strict=True)
    server = Server(folder, list(groups), {"WHARFINGER_AGENT_NETWORK": "none"})
    server.start()
    try:
        server.agents_up()
        for host in (registry.host, proxy.host):
            added = server.cli("registry", "add", f"http://{host}")
            assert added.code == 0, added.err
    except BaseException:
        server.kill()
        raise
    return server
