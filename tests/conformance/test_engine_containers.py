"""What the container half of the engine port means, tried on every engine that runs here.

Another engine joins as an entry of `ENGINES`: how its daemon is started.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import pytest
from rig import images
from rig.engines import ContainerEngine, PodmanEngine
from rig.engines import DockerEngine as DockerDaemon
from rig.processes import wait_until
from rig.registry import Registry

from wharfinger.agent.engine.client import Limits
from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.engine.port import (
    Change,
    Container,
    ContainerDetail,
    ContainerSpec,
    Engine,
    EngineError,
    ImageAbsent,
    NameTaken,
)
from wharfinger.domain.failures import FailureClass

ENGINES: Final[Mapping[str, Callable[[Path, str], ContainerEngine]]] = {
    "docker-classic": lambda folder, _: DockerDaemon(folder),
    "podman": lambda folder, registry: PodmanEngine(folder, registries=[registry]),
}
MEM: Final = 64 * 1024 * 1024
LABELS: Final = {"wharfinger.kernel": "k1", "odd": " \n\"'ü"}
STUBBORN: Final = "trap '' TERM; echo up; while :; do sleep 0.1; done"
OBEDIENT: Final = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
SHORT: Final = Limits(look=0.3, containers=0.3, remove=0.3, start=0.3, kill=0.3)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="module", params=ENGINES)
def daemon(
    request: pytest.FixtureRequest, registry: Registry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerEngine]:
    start = ENGINES[request.param]
    with start(tmp_path_factory.mktemp("engine"), registry.host) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def image(daemon: ContainerEngine, registry: Registry) -> str:
    """The id of an image of busybox whose own command is to end with 7."""
    layers = [images.busybox_layer()]
    pushed = images.push(registry.host, "lab/run", "v1", layers, cmd=("/bin/sh", "-c", "exit 7"))
    name = f"{registry.host}/lab/run@{pushed.root_digest}"
    daemon.pull(name)
    return str(daemon.api("GET", f"/images/{name}/json")[1]["Id"])


@pytest.fixture
async def engine(daemon: ContainerEngine) -> AsyncIterator[Engine]:
    engine = DockerEngine(daemon.url)
    yield engine
    await engine.close()
    await asyncio.to_thread(daemon.clear_containers)


def spec(
    image: str,
    script: str = "exit 0",
    *,
    name: str = "one",
    command: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    network: str = "none",
    gpus: Sequence[str] = (),
) -> ContainerSpec:
    return ContainerSpec(
        name=name,
        image_id=image,
        labels=LABELS,
        command=("/bin/sh", "-c", script) if command is None else command,
        environment=environment or {},
        cpu=500,
        mem=MEM,
        gpus=gpus,
        network=network,
    )


async def run(engine: Engine, wanted: ContainerSpec) -> None:
    await engine.create_container(wanted)
    await engine.start_container(wanted.name)


async def log_of(engine: Engine, name: str = "one", *, follow: bool = False) -> bytes:
    async with asyncio.timeout(10), engine.container_log(name, follow=follow) as pieces:
        return b"".join([piece async for piece in pieces])


async def run_to_its_end(engine: Engine, wanted: ContainerSpec) -> ContainerDetail:
    await run(engine, wanted)
    return await ended(engine, wanted.name)


async def found(engine: Engine, name: str = "one") -> ContainerDetail:
    detail = await engine.container(name)
    assert detail is not None
    return detail


async def ended(engine: Engine, name: str = "one") -> ContainerDetail:
    """Once it has ended: asked again at every change of a container."""
    changes = engine.changes()
    assert isinstance(changes, AsyncGenerator)
    async with asyncio.timeout(10), aclosing(changes):
        async for _ in changes:
            detail = await found(engine, name)
            if detail.exit_code is not None:
                return detail
    raise AssertionError("the subscription ended")


async def up(engine: Engine) -> None:
    """Once the script has set its trap and says so."""
    async with asyncio.timeout(10), engine.container_log("one", follow=True) as pieces:
        assert await anext(aiter(pieces)) == b"up\n"


async def connected(daemon: ContainerEngine, count: int) -> bool:
    """Whether the daemon comes to have so many connections."""
    return await asyncio.to_thread(wait_until, lambda: daemon.connections() == count, within=5)


async def failing(call: Any) -> EngineError:
    with pytest.raises(EngineError) as raised:
        await call
    return raised.value


async def test_an_engine_tells_the_size_of_its_host(engine: Engine) -> None:
    described = await engine.describe()
    assert described.cpus > 0
    assert described.memory > 256 * 1024 * 1024


async def test_a_created_container_is_found_and_does_not_run(engine: Engine, image: str) -> None:
    container_id = await engine.create_container(spec(image))

    detail = await found(engine)
    assert (detail.container_id, detail.name, detail.image_id) == (container_id, "one", image)
    assert detail.state == "created"
    assert detail.labels.items() >= LABELS.items()
    assert (detail.running, detail.exit_code) == (False, None)
    assert (detail.started_at, detail.ended_at) == (None, None)
    assert await engine.container(container_id) == detail
    assert await engine.containers() == [
        Container(container_id, "one", image, "created", detail.labels)
    ]


async def test_what_is_not_there_is_none(engine: Engine) -> None:
    assert await engine.container("nosuch") is None
    assert await engine.containers() == []


async def test_a_started_container_runs_since_now(engine: Engine, image: str) -> None:
    before = time.time()
    await run(engine, spec(image, OBEDIENT))
    detail = await found(engine)
    assert (detail.state, detail.running) == ("running", True)
    assert (detail.exit_code, detail.ended_at) == (None, None)
    assert detail.started_at is not None
    assert before - 1 < detail.started_at < time.time() + 1


async def test_starting_what_runs_is_no_error(engine: Engine, image: str) -> None:
    await run(engine, spec(image, OBEDIENT))
    first = await found(engine)
    await engine.start_container("one")
    assert await found(engine) == first


async def test_starting_what_is_not_there_is_told(engine: Engine) -> None:
    error = await failing(engine.start_container("nosuch"))
    assert error.message == "the container is no longer on this host"


@pytest.mark.parametrize("code", [0, 3, 137])
async def test_an_end_has_its_exit_code_and_its_times(
    engine: Engine, image: str, code: int
) -> None:
    script = "kill -KILL $$" if code == 137 else f"exit {code}"
    # the first process of a container is not killed by its own signal, so a child says how it ended
    detail = await run_to_its_end(engine, spec(image, f"sh -c '{script}'; exit $?"))
    assert detail.exit_code == code
    assert not detail.running
    assert detail.started_at is not None
    assert detail.ended_at is not None
    assert 0 <= detail.ended_at - detail.started_at < 10
    assert (detail.problem, detail.out_of_memory) == ("", False)


async def test_without_a_command_the_images_own_is_run(engine: Engine, image: str) -> None:
    assert (await run_to_its_end(engine, spec(image, command=()))).exit_code == 7


async def test_the_environment_arrives_unharmed(engine: Engine, image: str) -> None:
    odd = {
        "PLAIN": "1",
        "EQUALS": "a=b=c",
        "QUOTED": "\"'`$HOME\\",
        "LINES": "a\nb\tc ",
        "FOREIGN": "ü\u20ac\U0001f6a2",
        "EMPTY": "",
        "dotted.name-1": "x",
    }
    command = ("/bin/cat", "/proc/self/environ")  # a shell would drop the last
    await run_to_its_end(engine, spec(image, command=command, environment=odd))
    written = (await log_of(engine)).decode().split("\0")
    assert {f"{name}={value}" for name, value in odd.items()} <= set(written)


async def test_a_container_has_its_limits_and_no_privilege(
    engine: Engine, daemon: ContainerEngine, image: str
) -> None:
    await run_to_its_end(engine, spec(image, "cat /proc/self/status /proc/self/cgroup"))
    host = daemon.api("GET", "/containers/one/json")[1]["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, MEM, MEM)
    assert not host["Privileged"]
    assert not host["AutoRemove"]
    assert host["RestartPolicy"]["Name"] in {"", "no"}
    facts = dict(
        line.split(":", 1) for line in (await log_of(engine)).decode().splitlines() if ":" in line
    )
    assert facts["NoNewPrivs"].strip() == "1"
    assert not int(facts["CapEff"], 16) & 1 << 21  # CAP_SYS_ADMIN


async def test_more_memory_than_the_limit_is_not_had(engine: Engine, image: str) -> None:
    detail = await run_to_its_end(engine, spec(image, "x=aaaaaaaa; while :; do x=$x$x; done"))
    assert detail.exit_code == 137


@pytest.mark.parametrize(("network", "ours"), [("none", False), ("host", True)])
async def test_the_network_is_the_one_asked_for(
    engine: Engine, daemon: ContainerEngine, image: str, network: str, *, ours: bool
) -> None:
    await run_to_its_end(engine, spec(image, "cat /proc/net/unix", network=network))
    assert (str(daemon.socket).encode() in await log_of(engine)) is ours


async def test_a_second_container_of_one_name_is_refused(engine: Engine, image: str) -> None:
    first = await engine.create_container(spec(image))
    error = await failing(engine.create_container(spec(image)))
    assert isinstance(error, NameTaken)
    assert error.failure.failure_class is FailureClass.ENGINE_ERROR
    assert [each.container_id for each in await engine.containers()] == [first]


async def test_a_container_of_an_image_that_is_gone_is_refused(engine: Engine) -> None:
    error = await failing(engine.create_container(spec("sha256:" + "ab" * 32)))
    assert isinstance(error, ImageAbsent)
    assert await engine.containers() == []


@pytest.mark.parametrize("command", [("nosuch",), ("/no/such",), ("/bin",)])
async def test_a_command_the_image_does_not_have_is_told_and_never_ran(
    engine: Engine, image: str, command: Sequence[str]
) -> None:
    await engine.create_container(spec(image, command=command))
    error = await failing(engine.start_container("one"))
    assert error.failure.failure_class is FailureClass.UNSUPPORTED
    assert error.message.startswith("the command cannot be run in this image")
    detail = await found(engine)
    assert (detail.state, detail.running) == ("created", False)
    assert (detail.exit_code, detail.started_at, detail.ended_at) == (None, None, None)
    await engine.remove_container("one")
    assert await engine.container("one") is None


async def test_gpus_a_host_cannot_give_are_refused(engine: Engine, image: str) -> None:
    with pytest.raises(EngineError, match="GPU") as raised:
        await run(engine, spec(image, gpus=("0",)))
    assert raised.value.failure.failure_class is FailureClass.UNSUPPORTED


async def test_both_outputs_are_logged_in_order(engine: Engine, image: str) -> None:
    script = "for n in 1 2; do echo out$n; sleep 0.2; echo err$n >&2; sleep 0.2; done"
    await run_to_its_end(engine, spec(image, f"{script}; echo -n end"))
    assert await log_of(engine) == b"out1\nerr1\nout2\nerr2\nend"
    assert await log_of(engine, follow=True) == await log_of(engine)


async def test_a_long_log_comes_whole(engine: Engine, image: str) -> None:
    script = "x=0123456789abcdef; for n in 1 2 3 4 5 6 7 8 9 10 11 12; do x=$x$x; done"
    await run_to_its_end(
        engine, spec(image, f"{script}; echo $x; for n in 1 2 3 4; do echo $x; done")
    )
    assert len(await log_of(engine)) == 5 * (16 * 2**12 + 1)


async def test_a_terminals_log_is_what_it_showed(
    engine: Engine, daemon: ContainerEngine, image: str
) -> None:
    body = {
        "Image": image,
        "Tty": True,
        "Cmd": ["/bin/sh", "-c", "echo shown"],
        "HostConfig": daemon.host_config(),
    }
    assert daemon.api("POST", "/containers/create?name=one", body)[0] == 201
    await engine.start_container("one")
    await ended(engine)
    assert await log_of(engine) == b"shown\r\n"


async def test_a_followed_log_goes_on_until_the_end(engine: Engine, image: str) -> None:
    await run(engine, spec(image, OBEDIENT))
    async with asyncio.timeout(10), engine.container_log("one", follow=True) as pieces:
        read = b""
        async for piece in pieces:
            read += piece
            if read == b"up\n":
                await engine.stop_container("one", 5)
    assert read == b"up\n"
    assert not (await found(engine)).running


async def test_leaving_a_followed_log_closes_its_connection(
    engine: Engine, daemon: ContainerEngine, image: str
) -> None:
    await run(engine, spec(image, OBEDIENT))
    assert await connected(daemon, 0)
    async with asyncio.timeout(5), engine.container_log("one", follow=True) as pieces:
        assert await anext(aiter(pieces)) == b"up\n"
        assert await connected(daemon, 1)
    assert await connected(daemon, 0)


async def test_a_cancelled_reader_of_a_log_closes_its_connection(
    engine: Engine, daemon: ContainerEngine, image: str
) -> None:
    await run(engine, spec(image, OBEDIENT))
    await up(engine)
    reader = asyncio.create_task(log_of(engine, follow=True))
    assert await connected(daemon, 1)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert await connected(daemon, 0)


async def test_the_log_of_what_is_not_there_is_refused_on_entering(engine: Engine) -> None:
    with pytest.raises(EngineError, match="no longer on this host"):
        async with engine.container_log("nosuch", follow=True):
            pytest.fail("entered")


async def test_what_obeys_ends_by_itself_within_the_grace(engine: Engine, image: str) -> None:
    await run(engine, spec(image, OBEDIENT))
    await up(engine)
    await engine.stop_container("one", 30)
    detail = await found(engine)
    assert (detail.running, detail.exit_code) == (False, 0)


async def test_what_ignores_the_signal_is_killed_after_the_grace(
    engine: Engine, image: str
) -> None:
    await run(engine, spec(image, STUBBORN))
    await up(engine)
    await engine.stop_container("one", 0.5)
    detail = await found(engine)
    assert (detail.running, detail.exit_code) == (False, 137)


async def test_what_was_paused_by_hand_can_be_stopped(
    engine: Engine, daemon: ContainerEngine, image: str
) -> None:
    await run(engine, spec(image, OBEDIENT))
    await up(engine)
    assert daemon.api("POST", "/containers/one/pause")[0] == 204
    await engine.stop_container("one", 5)
    detail = await found(engine)
    assert (detail.running, detail.exit_code) == (False, 0)


async def test_stopping_what_does_not_run_is_no_error(engine: Engine, image: str) -> None:
    await engine.stop_container("nosuch", 1)
    await engine.create_container(spec(image))
    await engine.stop_container("one", 1)
    await engine.start_container("one")
    await ended(engine)
    await engine.stop_container("one", 1)


async def test_a_removed_container_is_gone_and_absence_is_no_error(
    engine: Engine, image: str
) -> None:
    await run_to_its_end(engine, spec(image))
    await engine.remove_container("one")
    assert await engine.container("one") is None
    await engine.remove_container("one")


async def test_removing_what_runs_is_refused_and_changes_nothing(
    engine: Engine, image: str
) -> None:
    await run(engine, spec(image, OBEDIENT))
    before = await found(engine)
    error = await failing(engine.remove_container("one"))
    assert error.failure.failure_class is FailureClass.IN_USE
    assert await found(engine) == before


async def test_starts_ends_and_removals_by_hand_are_told(
    engine: Engine, daemon: ContainerEngine, image: str
) -> None:
    daemon.create_container(image, "one", command=("/bin/sh", "-c", STUBBORN))
    by_hand = [
        lambda: daemon.api("POST", "/containers/one/start"),
        lambda: daemon.api("POST", "/containers/one/kill"),
        lambda: daemon.api("POST", "/containers/one/rename?name=two"),
        lambda: daemon.api("DELETE", "/containers/two?v=1"),
    ]
    changes = engine.changes()
    assert isinstance(changes, AsyncGenerator)
    async with asyncio.timeout(20), aclosing(changes):
        assert {await anext(changes), await anext(changes)} == set(Change)
        for change in by_hand:
            status, answer = await asyncio.to_thread(change)
            assert status == 204, json.dumps(answer)
            async with asyncio.timeout(2):
                assert await anext(changes) is Change.CONTAINERS


async def test_an_engine_that_hangs_is_told_by_every_call(
    daemon: ContainerEngine, image: str
) -> None:
    engine = DockerEngine(daemon.url, SHORT)
    daemon.pause()
    try:
        calls: list[Callable[[], Any]] = [
            engine.containers,
            lambda: engine.container("one"),
            lambda: engine.create_container(spec(image)),
            lambda: engine.start_container("one"),
            lambda: engine.stop_container("one", 0),
            lambda: engine.remove_container("one"),
            lambda: log_of(engine),
        ]
        for call in calls:
            error = await failing(call())
            assert "does not answer" in error.message
            assert error.failure.failure_class is FailureClass.ENGINE_ERROR
    finally:
        daemon.resume()
        await engine.close()
        daemon.clear_containers()
