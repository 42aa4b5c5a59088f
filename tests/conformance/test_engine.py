"""What the engine port means for images, tried on every engine that runs here.

Another engine joins as an entry of `ENGINES`: how its daemon is started, and what it says it is.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from rig import images
from rig.engines import ContainerEngine
from rig.engines import DockerEngine as DockerDaemon
from rig.images import LayerBlob, Pushed
from rig.ports import free_port
from rig.proxy import Cut, FaultProxy, Flip, Rate, Rule, Stall, Status
from rig.registry import Registry

from wharfinger.agent.engine.client import Limits
from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.engine.port import (
    Change,
    Engine,
    EngineError,
    LayerEvent,
    LayerStep,
    RegistryCredentials,
)
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.platforms import Platform

MANIFESTS: Final = r"(HEAD|GET) /v2/.*/manifests/"
BLOBS: Final = r"GET /v2/.*/blobs/"
USERS: Final = {"alice": "s3cr€t?>~"}
SLEEP: Final = ("/bin/busybox", "sleep", "3600")
SHORT: Final = Limits(look=0.3, list=0.3, remove=0.3)


@dataclass(frozen=True)
class Kind:
    """An engine that runs here."""

    start: Callable[[Path], ContainerEngine]
    kind: str
    store: str


ENGINES: Final = {
    "docker-classic": Kind(
        lambda folder: DockerDaemon(folder, download_attempts=1), "docker", "classic"
    ),
}


@pytest.fixture(scope="module", params=ENGINES)
def kind(request: pytest.FixtureRequest) -> Kind:
    return ENGINES[request.param]


@pytest.fixture(scope="module")
def daemon(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerEngine]:
    with kind.start(tmp_path_factory.mktemp("engine")) as daemon:
        yield daemon


@pytest.fixture
async def engine(daemon: ContainerEngine) -> AsyncIterator[Engine]:
    engine = DockerEngine(daemon.url)
    yield engine
    await engine.close()
    await asyncio.to_thread(daemon.clear)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("guarded"), users=USERS) as registry:
        yield registry


@pytest.fixture
def proxy(registry: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(registry.host) as proxy:
        yield proxy


@dataclass(frozen=True)
class Sample:
    """An image in the registry. `pinned` is what an engine is asked to pull."""

    host: str
    repository: str
    pushed: Pushed

    @property
    def name(self) -> str:
        return f"{self.host}/{self.repository}"

    @property
    def pinned(self) -> str:
        return f"{self.name}@{self.pushed.root_digest}"

    def by(self, proxy: FaultProxy) -> "Sample":
        """The same through a proxy."""
        return Sample(proxy.host, self.repository, self.pushed)


def _sample(registry: Registry, repository: str, *layers: LayerBlob, **options: Any) -> Sample:
    content = layers or (images.random_layer(repository, 2_000),)
    return Sample(
        registry.host,
        repository,
        images.push(registry.host, repository, "v1", content, **options),
    )


@pytest.fixture(scope="module")
def runnable(registry: Registry) -> Sample:
    return _sample(registry, "lab/runnable", images.busybox_layer())


async def _pull(
    engine: Engine, name: str, credentials: RegistryCredentials | None = None
) -> list[LayerEvent]:
    async with engine.pull(name, credentials) as events:
        return [event async for event in events]


async def _failing_pull(
    engine: Engine, name: str, credentials: RegistryCredentials | None = None
) -> FailureClass:
    with pytest.raises(EngineError) as raised:
        await _pull(engine, name, credentials)
    assert raised.value.failure.detail
    return raised.value.failure.failure_class


async def test_an_engine_describes_itself(engine: Engine, kind: Kind) -> None:
    described = await engine.describe()
    assert (described.kind, described.store) == (kind.kind, kind.store)
    assert described.version
    assert described.platform == Platform.parse("linux", "x86_64")
    assert described.inactivity_seconds >= 60


async def test_a_pull_tells_every_layer_in_order_and_within_its_size(
    engine: Engine, registry: Registry, proxy: FaultProxy
) -> None:
    layers = [images.random_layer(f"file{n}", size) for n, size in enumerate((9_000, 4_000_000))]
    sample = _sample(registry, "lab/progress", *layers).by(proxy)
    proxy.rules(Rate(BLOBS, bytes_per_second=6_000_000))

    events = await _pull(engine, sample.pinned)

    order = [
        LayerStep.WAITING,
        LayerStep.DOWNLOADING,
        LayerStep.DOWNLOADED,
        LayerStep.EXTRACTING,
        LayerStep.DONE,
    ]
    for layer in layers:
        short = layer.digest.removeprefix("sha256:")[:12]
        own = [event for event in events if event.layer == short]
        steps = [order.index(event.step) for event in own if event.step != LayerStep.WAITING]
        assert steps == sorted(steps)
        assert own[-1].step in {LayerStep.DONE, LayerStep.DOWNLOADED}
        for step in (LayerStep.DOWNLOADING, LayerStep.EXTRACTING):
            numbers = [event.current for event in own if event.step == step]
            known = [number for number in numbers if number is not None]
            assert known == sorted(known)
            assert all(0 <= number <= layer.size for number in known)
    counted = [event.current for event in events if event.step == LayerStep.DOWNLOADING]
    assert len(set(counted)) > 3


async def test_an_image_pulled_by_digest_is_found_by_digest_and_id_without_a_tag(
    engine: Engine, runnable: Sample
) -> None:
    assert await engine.inspect(runnable.pinned) is None

    await _pull(engine, runnable.pinned, None)

    image = await engine.inspect(runnable.pinned)
    assert image is not None
    assert image.digests == (runnable.pinned,)
    assert image.tags == ()
    assert image.size > 0
    assert image.platform == Platform("linux", "amd64")
    assert await engine.inspect(image.image_id) == image
    assert [each.image_id for each in await engine.images()] == [image.image_id]


async def test_an_image_tells_its_layers_and_their_unpacked_sizes(
    engine: Engine, registry: Registry
) -> None:
    layers = [images.random_layer(f"file{n}", size) for n, size in enumerate((9_000, 400, 70_000))]
    sample = _sample(registry, "lab/layered", *layers)
    await _pull(engine, sample.pinned)

    image = await engine.inspect(sample.pinned)

    assert image is not None
    assert image.diff_ids == tuple(layer.diff_id for layer in layers)
    assert await engine.layer_sizes(image) == (9_000, 400, 70_000)
    assert [each.diff_ids for each in await engine.images()] == [()]
    await engine.untag(sample.pinned)
    assert await engine.layer_sizes(image) is None


async def test_the_disk_is_that_of_the_images(engine: Engine, daemon: ContainerEngine) -> None:
    seen = os.statvfs(daemon.folder / "root")
    disk = await engine.disk()
    assert disk is not None
    assert disk.total == seen.f_blocks * seen.f_frsize
    assert 0 < disk.free < disk.total


async def test_pulling_what_is_there_ends_well(engine: Engine, runnable: Sample) -> None:
    await _pull(engine, runnable.pinned)
    events = await _pull(engine, runnable.pinned)
    assert {event.step for event in events} <= {LayerStep.DONE, LayerStep.DOWNLOADING}


async def test_a_tag_names_the_image_and_moves_to_another(
    engine: Engine, registry: Registry
) -> None:
    first, second = (_sample(registry, f"lab/moving{n}") for n in (1, 2))
    tag = f"{first.name}:here"
    await _pull(engine, first.pinned)
    await _pull(engine, second.pinned)

    await engine.tag(first.pinned, tag)
    tagged = await engine.inspect(tag)
    assert tagged is not None
    assert tagged.tags == (tag,)
    assert first.pinned in tagged.digests

    await engine.tag(second.pinned, tag)
    moved = await engine.inspect(tag)
    assert moved is not None
    assert second.pinned in moved.digests
    assert first.pinned not in moved.digests


async def test_an_official_hub_name_is_read_back_normalised(
    engine: Engine, runnable: Sample
) -> None:
    tag = "docker.io/library/busybox:v1"
    await _pull(engine, runnable.pinned)
    await engine.tag(runnable.pinned, tag)
    image = await engine.inspect(tag)
    assert image is not None
    assert image.tags == (tag,)
    await engine.untag(tag)
    assert await engine.inspect(tag) is None


async def test_tagging_what_is_gone_is_told(engine: Engine, runnable: Sample) -> None:
    with pytest.raises(EngineError, match="no longer on this host"):
        await engine.tag(runnable.pinned, f"{runnable.name}:here")


async def test_untagging_one_of_several_names_keeps_the_image(
    engine: Engine, runnable: Sample
) -> None:
    one, two = f"{runnable.name}:one", f"{runnable.name}:two"
    await _pull(engine, runnable.pinned)
    await engine.tag(runnable.pinned, one)
    await engine.tag(runnable.pinned, two)

    await engine.untag(one)

    assert await engine.inspect(one) is None
    image = await engine.inspect(two)
    assert image is not None
    assert image.tags == (two,)


async def test_untagging_the_last_tag_removes_the_image(engine: Engine, runnable: Sample) -> None:
    tag = f"{runnable.name}:only"
    await _pull(engine, runnable.pinned)
    await engine.tag(runnable.pinned, tag)
    await engine.untag(tag)
    assert await engine.images() == []


async def test_untagging_what_is_absent_is_no_error(engine: Engine, runnable: Sample) -> None:
    await engine.untag(f"{runnable.name}:nosuch")
    await engine.untag(runnable.pinned)


@pytest.mark.parametrize("start", [True, False], ids=["running", "created"])
async def test_an_image_in_use_is_not_removed(
    engine: Engine, daemon: ContainerEngine, runnable: Sample, start: bool
) -> None:
    tag = f"{runnable.name}:used"
    await _pull(engine, runnable.pinned)
    await engine.tag(runnable.pinned, tag)
    container_id = await asyncio.to_thread(
        daemon.create_container, tag, "user", command=SLEEP, start=start
    )
    image = await engine.inspect(tag)
    assert image is not None

    [container] = await engine.containers()
    assert container.container_id == container_id
    assert container.name == "user"
    assert container.image_id == image.image_id
    assert container.state == ("running" if start else "created")
    with pytest.raises(EngineError) as raised:
        await engine.untag(tag)
    assert raised.value.failure.failure_class is FailureClass.IN_USE
    assert await engine.inspect(tag) == image
    assert [each.state for each in await engine.containers()] == [container.state]


async def test_an_unknown_digest_is_not_found(engine: Engine, runnable: Sample) -> None:
    absent = f"{runnable.name}@sha256:{'ab' * 32}"
    assert await _failing_pull(engine, absent) is FailureClass.NOT_FOUND


async def test_a_registry_that_refuses_connections_is_a_network_failure(engine: Engine) -> None:
    absent = f"127.0.0.1:{free_port()}/lab/a@sha256:{'ab' * 32}"
    assert await _failing_pull(engine, absent) is FailureClass.NETWORK


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Status(MANIFESTS, code=429, body='{"errors":[{"code":"TOOMANYREQUESTS"}]}'), "rate"),
        (Status(MANIFESTS, code=503), "registry"),
        (Status(BLOBS, code=429, body="slow down"), "rate"),
        (
            Status(BLOBS, code=403, body='{"errors":[{"code":"DENIED","message":"lab denied"}]}'),
            "auth",
        ),
        (Status(BLOBS, code=404), "registry"),
        (Flip(BLOBS, offset=1000), "corrupt"),
    ],
    ids=["limited", "unavailable", "blob-limited", "blob-denied", "blob-missing", "blob-corrupt"],
)
async def test_a_registrys_faults_are_classed(
    engine: Engine, registry: Registry, proxy: FaultProxy, rule: Rule, expected: str
) -> None:
    classes = {
        "rate": FailureClass.RATE_LIMITED,
        "registry": FailureClass.REGISTRY_ERROR,
        "auth": FailureClass.AUTH,
        "corrupt": FailureClass.CORRUPT,
    }
    sample = _sample(registry, f"lab/fault-{expected}").by(proxy)
    proxy.rules(rule)
    assert await _failing_pull(engine, sample.pinned) is classes[expected]
    assert await engine.inspect(sample.pinned) is None


async def test_a_foreign_platform_is_told(engine: Engine, registry: Registry) -> None:
    foreign = _sample(registry, "lab/foreign", architecture="s390x")
    index = images.push_index(
        registry.host, "lab/foreign", "index", {("linux", "s390x", ""): foreign.pushed}
    )
    name = f"{foreign.name}@{index.root_digest}"
    assert await _failing_pull(engine, name) is FailureClass.WRONG_PLATFORM


async def test_a_single_foreign_manifest_shows_its_platform_on_inspect(
    engine: Engine, registry: Registry
) -> None:
    foreign = _sample(registry, "lab/single", architecture="arm64")
    await _pull(engine, foreign.pinned)
    image = await engine.inspect(foreign.pinned)
    assert image is not None
    assert image.platform == Platform("linux", "arm64")


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (None, FailureClass.AUTH),
        (RegistryCredentials("alice", "wrong"), FailureClass.AUTH),
        (RegistryCredentials("alice", USERS["alice"]), None),
    ],
    ids=["none", "wrong", "right"],
)
async def test_a_guarded_registry_wants_the_right_password(
    engine: Engine,
    guarded: Registry,
    credentials: RegistryCredentials | None,
    expected: FailureClass | None,
) -> None:
    layers = [images.random_layer("secret", 1000)]
    pushed = images.push(
        guarded.host, "lab/secret", "v1", layers, credentials=("alice", USERS["alice"])
    )
    name = f"{guarded.host}/lab/secret@{pushed.root_digest}"
    if expected is None:
        await _pull(engine, name, credentials)
        assert await engine.inspect(name) is not None
    else:
        assert await _failing_pull(engine, name, credentials) is expected


async def test_leaving_a_pull_ends_it_and_leaves_nothing_behind(
    engine: Engine, registry: Registry, proxy: FaultProxy
) -> None:
    sample = _sample(registry, "lab/left", images.random_layer("big", 8_000_000)).by(proxy)
    proxy.rules(Rate(BLOBS, bytes_per_second=500_000))

    async with engine.pull(sample.pinned, None) as events:
        async for event in events:
            if event.current:
                break

    blob = sample.pushed.layers[0].digest
    exchange = await asyncio.to_thread(proxy.wait_for, f"{BLOBS}{blob}", ended=True, within=2.0)
    assert exchange.client_left
    assert exchange.sent < 4_000_000
    assert await engine.inspect(sample.pinned) is None
    assert await engine.images() == []


async def test_a_cancelled_pull_ends_in_the_engine_too(
    engine: Engine, registry: Registry, proxy: FaultProxy
) -> None:
    sample = _sample(registry, "lab/cancelled", images.random_layer("big", 3_000_000)).by(proxy)
    proxy.rules(Stall(BLOBS, after=1_000_000))
    pull = asyncio.create_task(_pull(engine, sample.pinned))
    await asyncio.to_thread(proxy.wait_for, BLOBS, sent=1_000_000)

    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull

    # what stalled stays connected until the server closes; a new pull is not held up by it
    proxy.rules()
    await _pull(engine, sample.pinned)
    assert await engine.inspect(sample.pinned) is not None


async def test_a_cut_connection_shows_as_retrying(
    engine: Engine, registry: Registry, proxy: FaultProxy, kind: Kind
) -> None:
    if kind.store != "classic":
        pytest.skip("only the classic store tells of its retries")
    sample = _sample(registry, "lab/cut", images.random_layer("big", 2_000_000)).by(proxy)
    proxy.rules(Cut(BLOBS, after=500_000))
    async with asyncio.timeout(10), engine.pull(sample.pinned, None) as events:
        async for event in events:
            if event.step == LayerStep.RETRYING:
                break
        else:
            pytest.fail("the pull ended")


async def test_an_engine_killed_during_a_pull_fails_it_and_is_found_again(
    engine: Engine, daemon: ContainerEngine, registry: Registry, proxy: FaultProxy
) -> None:
    sample = _sample(registry, "lab/killed", images.random_layer("big", 3_000_000)).by(proxy)
    proxy.rules(Stall(BLOBS, after=1_000_000))
    pull = asyncio.create_task(_failing_pull(engine, sample.pinned))
    changes = asyncio.create_task(_until_the_end(engine))
    await asyncio.to_thread(proxy.wait_for, BLOBS, sent=1_000_000)

    await asyncio.to_thread(daemon.kill)

    assert await pull is FailureClass.ENGINE_ERROR
    assert await changes is FailureClass.ENGINE_ERROR
    with pytest.raises(EngineError, match="not running"):
        await engine.describe()
    await asyncio.to_thread(daemon.start)
    assert await engine.images() == []


async def _until_the_end(engine: Engine) -> FailureClass:
    with pytest.raises(EngineError) as raised:
        async for _ in engine.changes():
            pass
    return raised.value.failure.failure_class


async def test_an_engine_may_come_up_later_and_go_away_in_peace(
    daemon: ContainerEngine,
) -> None:
    engine = DockerEngine(str(daemon.socket))
    await asyncio.to_thread(daemon.stop)
    try:
        with pytest.raises(EngineError) as raised:
            await engine.images()
        assert raised.value.failure.failure_class is FailureClass.ENGINE_ERROR
    finally:
        await asyncio.to_thread(daemon.start)
    assert await engine.images() == []
    changes = asyncio.create_task(_until_the_end(engine))
    await asyncio.to_thread(daemon.stop)
    try:
        assert await changes is FailureClass.ENGINE_ERROR
    finally:
        await asyncio.to_thread(daemon.start)
    await engine.close()


async def test_an_engine_that_hangs_is_told_by_every_call(daemon: ContainerEngine) -> None:
    engine = DockerEngine(daemon.url, SHORT)
    await engine.describe()
    daemon.pause()
    try:
        calls: list[Callable[[], Any]] = [
            engine.describe,
            engine.images,
            engine.containers,
            lambda: engine.inspect("docker.io/library/a:v1"),
            lambda: engine.tag("docker.io/library/a:v1", "docker.io/library/b:v1"),
            lambda: engine.untag("docker.io/library/a:v1"),
            lambda: _pull(engine, f"127.0.0.1:5000/a@sha256:{'ab' * 32}"),
            lambda: anext(engine.changes()),
        ]
        async with asyncio.timeout(5):
            for call in calls:
                with pytest.raises(EngineError, match="does not answer") as raised:
                    await call()
                assert raised.value.failure.failure_class is FailureClass.ENGINE_ERROR
    finally:
        daemon.resume()
    assert await engine.images() == []


async def test_changes_by_hand_are_told(
    engine: Engine, daemon: ContainerEngine, registry: Registry
) -> None:
    # every event of an image repeats its labels, whatever their size
    sample = _sample(registry, "lab/by-hand", labels={"long": "x{" * 200_000})
    by_hand: list[Callable[[], Any]] = [
        lambda: daemon.pull(f"{sample.name}:v1"),
        lambda: daemon.api("POST", f"/images/{sample.name}:v1/tag?repo={sample.name}&tag=v2"),
        lambda: daemon.api("DELETE", f"/images/{sample.name}:v2"),
        lambda: daemon.api("DELETE", f"/images/{sample.name}:v1"),
    ]
    changes = engine.changes()
    assert isinstance(changes, AsyncGenerator)
    async with asyncio.timeout(20), aclosing(changes):
        assert {await anext(changes), await anext(changes)} == set(Change)
        for change in by_hand:
            await asyncio.to_thread(change)
            async with asyncio.timeout(2):
                assert await anext(changes) is Change.IMAGES


async def test_pulls_run_side_by_side_and_one_left_does_not_end_another(
    engine: Engine, registry: Registry, proxy: FaultProxy
) -> None:
    shared = images.random_layer("shared", 2_000_000)
    samples = [
        _sample(registry, f"lab/side{n}", shared, images.random_layer(f"own{n}", 3000)).by(proxy)
        for n in range(3)
    ]
    proxy.rules(Rate(BLOBS, bytes_per_second=2_000_000))
    left = asyncio.create_task(_pull(engine, samples[0].pinned))
    pulls = [asyncio.create_task(_pull(engine, sample.pinned)) for sample in samples]
    await asyncio.to_thread(proxy.wait_for, BLOBS, sent=500_000)
    left.cancel()

    await asyncio.gather(*pulls)

    held = {name for image in await engine.images() for name in image.digests}
    assert held == {sample.pinned for sample in samples}


async def test_closing_ends_what_is_open_and_refuses_more(engine: Engine) -> None:
    waiting = asyncio.create_task(_until_the_end(engine))
    changes = engine.changes()
    for _ in Change:
        await anext(changes)
    await engine.close()
    async with asyncio.timeout(5):
        assert await waiting is FailureClass.ENGINE_ERROR
        with pytest.raises(EngineError):
            await anext(changes)
        with pytest.raises(EngineError):
            await engine.images()
