"""The Docker adapter over TCP, where a proxy can stand between it and a real daemon."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rig import images
from rig.engines import DockerEngine as DockerDaemon
from rig.ports import free_port
from rig.proxy import Cut, FaultProxy, Stall, Status
from rig.registry import Registry

from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.engine.port import ContainerSpec, EngineError, RegistryCredentials
from wharfinger.domain.failures import FailureClass

TOO_OLD = "client version 1.41 is too old. Minimum supported API version is 1.44"


@pytest.fixture(scope="module")
def daemon_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    host = f"127.0.0.1:{free_port()}"
    folder = tmp_path_factory.mktemp("engine")
    with DockerDaemon(folder, options=[f"--host=tcp://{host}"]):
        yield host


@pytest.fixture
def proxy(daemon_host: str) -> Iterator[FaultProxy]:
    with FaultProxy(daemon_host) as proxy:
        yield proxy


@pytest.fixture
async def engine(proxy: FaultProxy) -> AsyncIterator[DockerEngine]:
    engine = DockerEngine(f"tcp://{proxy.host}")
    yield engine
    await engine.close()


async def test_the_api_version_is_the_daemons_and_never_pinned(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    await engine.describe()
    assert [exchange.path for exchange in proxy.log] == ["/version", "/v1.41/info"]


async def test_a_daemon_that_refuses_our_version_is_unsupported_until_it_takes_it(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    proxy.rules(Status(r" /v1\.", code=400, body=f'{{"message": "{TOO_OLD}"}}'))
    with pytest.raises(EngineError) as raised:
        await engine.describe()
    failure = raised.value.failure
    assert failure.failure_class is FailureClass.UNSUPPORTED
    assert failure.detail == TOO_OLD

    proxy.rules()
    assert (await engine.describe()).kind == "docker"


async def test_a_stream_cut_in_the_middle_is_an_engine_error(
    engine: DockerEngine, proxy: FaultProxy, tmp_path: Path
) -> None:
    with Registry(tmp_path) as registry:
        pushed = images.push(registry.host, "lab/a", "v1", [images.random_layer("x", 1000)])
        name = f"{registry.host}/lab/a@{pushed.root_digest}"
        proxy.rules(Cut(r"POST /v1\.41/images/create", after=10))
        with pytest.raises(EngineError) as raised:
            await _pull(engine, name)
        assert raised.value.failure.failure_class is FailureClass.ENGINE_ERROR


async def test_an_error_that_comes_in_pieces_is_read_whole(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    proxy.rules(Stall(r"GET /v1\.41/images/", after=10))
    looking = asyncio.create_task(engine.inspect("docker.io/library/absent:v1"))
    await asyncio.to_thread(proxy.wait_for, "GET /v1.41/images/", sent=10)
    proxy.rules()
    assert await looking is None


@pytest.mark.parametrize("body", ["<html>Welcome</html>", "{}"])
async def test_an_answer_that_says_nothing_is_no_absence(
    engine: DockerEngine, proxy: FaultProxy, body: str
) -> None:
    proxy.rules(Status(r"GET /v1\.41/images/", code=200, body=body))
    with pytest.raises(EngineError, match="cannot be read") as raised:
        await engine.inspect("docker.io/library/a:v1")
    assert raised.value.failure.detail == body


@pytest.mark.parametrize(
    "body", ["<html>Welcome</html>", "", "null", "{}", '{"message": "busy"}', '[{"Id": null}]']
)
async def test_a_listing_that_says_nothing_is_no_empty_host(
    engine: DockerEngine, proxy: FaultProxy, body: str
) -> None:
    proxy.rules(Status(r"GET /v1\.41/", code=200, body=body))
    with pytest.raises(EngineError, match="cannot be read"):
        await engine.images()
    with pytest.raises(EngineError, match="cannot be read"):
        await engine.containers()


async def test_an_answer_that_is_no_http_shows_no_password(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    proxy.rules(Status(r"POST /v1\.41/images/create", code=200, headers={"no name": "x"}))
    credentials = RegistryCredentials("alice", "hunter2")
    with pytest.raises(EngineError) as raised:
        await _pull(engine, f"127.0.0.1:5000/a@sha256:{'ab' * 32}", credentials)
    assert raised.value.failure.failure_class is FailureClass.ENGINE_ERROR
    secret = proxy.log[-1].headers["X-Registry-Auth"]
    assert secret not in raised.value.failure.detail
    assert "hunter2" not in repr(credentials)


BEGUN = "\x01\0\0\0\0\0\0\x05abc"
"""A frame of a log that holds five bytes, and three of them."""


async def test_a_log_that_ends_inside_a_frame_is_an_engine_error(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    proxy.rules(
        Status(r"GET /v1\.41/containers/one/json", code=200, body='{"Id": "c1"}'),
        Status(r"GET /v1\.41/containers/one/logs", code=200, body=BEGUN),
    )
    async with engine.container_log("one", follow=False) as pieces:
        assert await anext(aiter(pieces)) == b"abc"
        with pytest.raises(EngineError) as raised:
            await anext(aiter(pieces))
    assert raised.value.failure.failure_class is FailureClass.ENGINE_ERROR


async def test_a_look_at_a_process_that_ends_meanwhile_is_repeated(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    body = '{"message": "read /proc/12736/cgroup: no such process"}'
    proxy.rules(Status(r"GET /v1\.41/containers/one/json", code=500, body=body, times=2))
    assert await engine.container("one") is None


async def test_a_removal_that_is_going_on_is_no_error(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    body = '{"message": "removal of container c1 is already in progress"}'
    proxy.rules(Status(r"DELETE /v1\.41/containers/", code=409, body=body))
    await engine.remove_container("one")


async def test_a_stop_that_did_not_end_it_is_an_engine_error(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    why = "cannot stop container: one: tried to kill container, but did not receive an exit event"
    proxy.rules(Status(r"POST /v1\.41/containers/", code=500, body=f'{{"message": "{why}"}}'))
    with pytest.raises(EngineError, match="did not receive an exit event"):
        await engine.stop_container("one", 1)


@pytest.mark.parametrize("body", ["<html>Welcome</html>", "{}"])
async def test_an_answer_about_a_container_that_says_nothing_is_no_absence(
    engine: DockerEngine, proxy: FaultProxy, body: str
) -> None:
    proxy.rules(
        Status(r"GET /v1\.41/containers/", code=200, body=body),
        Status(r"POST /v1\.41/containers/create", code=201, body=body),
    )
    with pytest.raises(EngineError, match="cannot be read"):
        await engine.container("one")
    spec = ContainerSpec("one", "sha256:" + "ab" * 32, {}, (), {}, 1000, 1 << 30, (), "none")
    with pytest.raises(EngineError, match="cannot be read"):
        await engine.create_container(spec)


async def test_a_404_that_is_not_about_the_container_is_no_absence(
    engine: DockerEngine, proxy: FaultProxy
) -> None:
    proxy.rules(Status(r"/v1\.41/containers/", code=404, body='{"message": "page not found"}'))
    for call in (
        engine.container("one"),
        engine.remove_container("one"),
        engine.stop_container("one", 1),
    ):
        with pytest.raises(EngineError, match="page not found"):
            await call


async def _pull(
    engine: DockerEngine, name: str, credentials: RegistryCredentials | None = None
) -> None:
    async with engine.pull(name, credentials) as events:
        async for _ in events:
            pass
