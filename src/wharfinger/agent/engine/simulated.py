"""An engine in memory, for scale and for interleavings. It is never a proof that a feature works.

It behaves as Docker does with the classic store: an image goes with the last name taken from it,
unless a container uses it; one whose tag moved stays; with its last tag of a repository go the
digest references of that repository; a pull that is let go leaves nothing, layers that are there
are not fetched again. What it can pull is what it is told of at its making.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from wharfinger.agent.engine.port import (
    Change,
    Container,
    ContainerDetail,
    ContainerSpec,
    EngineDescription,
    EngineError,
    ImageAbsent,
    LayerEvent,
    LayerStep,
    LocalImage,
    NameTaken,
    RegistryCredentials,
)
from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer

PLATFORM: Final = Platform("linux", "amd64")
_STEPS: Final = 4
"""Lines that tell of a layer's download."""
_KILLED: Final = 143


@dataclass(frozen=True, slots=True)
class SimulatedImage:
    """What a pinned name (`host/name@digest`) is pulled as."""

    image_id: str
    layers: tuple[Layer, ...]
    diff_ids: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(layer.size for layer in self.layers)


@dataclass
class SimulatedEngine:
    """One engine. `library` is what can be pulled, by pinned name; `bytes_per_second` of one pull.

    After `die` every call fails until `revive`; containers and images stay.
    """

    library: Mapping[str, SimulatedImage]
    bytes_per_second: float = 1e9
    cpus: int = 8
    memory: int = 16 * 2**30
    disk_total: int = 2**40
    _dead: bool = False
    _named: dict[str, str] = field(default_factory=dict)
    """The image's id, by tag or digest reference."""
    _images: dict[str, SimulatedImage] = field(default_factory=dict)
    _containers: dict[str, ContainerDetail] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _listening: set["asyncio.Queue[Change]"] = field(default_factory=set)

    async def describe(self) -> EngineDescription:
        """See `port.Engine`."""
        self._answer()
        return EngineDescription(
            "simulated", "1", "classic", PLATFORM, 60.0, cpus=self.cpus, memory=self.memory
        )

    async def inspect(self, name: str) -> LocalImage | None:
        """See `port.Engine`."""
        self._answer()
        image_id = name if name in self._images else self._named.get(name)
        if image_id is None:
            return None
        return replace(
            self._local(image_id), platform=PLATFORM, diff_ids=self._images[image_id].diff_ids
        )

    async def images(self) -> list[LocalImage]:
        """See `port.Engine`."""
        self._answer()
        return [self._local(image_id) for image_id in self._images]

    async def layer_sizes(self, image: LocalImage) -> tuple[int, ...] | None:
        """See `port.Engine`."""
        self._answer()
        held = self._images.get(image.image_id)
        return None if held is None else tuple(layer.size for layer in held.layers)

    async def disk(self) -> DiskSpace | None:
        """See `port.Engine`."""
        self._answer()
        layers = {layer.digest: layer for each in self._images.values() for layer in each.layers}
        used = sum(layer.size for layer in layers.values())
        return DiskSpace(free=max(self.disk_total - used, 0), total=self.disk_total)

    async def containers(self) -> list[Container]:
        """See `port.Engine`."""
        self._answer()
        return [
            Container(each.container_id, each.name, each.image_id, each.state, each.labels)
            for each in self._containers.values()
        ]

    @asynccontextmanager
    async def pull(
        self,
        name: str,
        credentials: RegistryCredentials | None,  # noqa: ARG002 - nobody checks them here
    ) -> AsyncIterator[AsyncIterator[LayerEvent]]:
        """See `port.Engine`."""
        yield self._pulling(name)

    async def tag(self, name: str, reference: str) -> None:
        """See `port.Engine`."""
        self._answer()
        image_id = name if name in self._images else self._named.get(name)
        if image_id is None:
            raise _absent(name)
        self._named[reference] = image_id
        self._tell(Change.IMAGES)

    async def untag(self, name: str) -> None:
        """See `port.Engine`."""
        self._answer()
        image_id = self._named.get(name)
        if image_id is None:
            return
        names = {each for each, held in self._named.items() if held == image_id}
        left = names - {name}
        if not any(_is_tag_of(_repository(name), each) for each in left):
            left = {each for each in left if _repository(each) != _repository(name)}
        if not left and self._used(image_id):
            raise EngineError(
                Failure(FailureClass.IN_USE, f"conflict: a container uses the image of {name}")
            )
        for going in names - left:
            del self._named[going]
        if not left:
            del self._images[image_id]
        self._tell(Change.IMAGES)

    async def container(self, name: str) -> ContainerDetail | None:
        """See `port.Engine`."""
        self._answer()
        return self._find(name)

    async def create_container(self, spec: ContainerSpec) -> str:
        """See `port.Engine`."""
        self._answer()
        if spec.name in self._containers:
            raise NameTaken(Failure(FailureClass.ENGINE_ERROR, f"the name {spec.name} is taken"))
        if spec.image_id not in self._images:
            raise ImageAbsent(Failure(FailureClass.NOT_FOUND, f"no such image: {spec.image_id}"))
        container_id = f"{next(self._numbers):064x}"
        self._put(
            ContainerDetail(
                container_id=container_id,
                name=spec.name,
                image_id=spec.image_id,
                state="created",
                labels=dict(spec.labels),
                running=False,
                exit_code=None,
                out_of_memory=False,
                started_at=None,
                ended_at=None,
            )
        )
        return container_id

    async def start_container(self, name: str) -> None:
        """See `port.Engine`."""
        self._answer()
        found = self._find(name)
        if found is None:
            raise _absent(name)
        if not found.running:
            self._put(replace(found, state="running", running=True, started_at=time.time()))

    async def stop_container(self, name: str, grace_seconds: float) -> None:  # noqa: ARG002
        """See `port.Engine`."""
        self._answer()
        self.end_container(name, _KILLED)

    async def remove_container(self, name: str) -> None:
        """See `port.Engine`."""
        self._answer()
        found = self._find(name)
        if found is None:
            return
        if found.running:
            raise EngineError(Failure(FailureClass.IN_USE, f"the container {name} runs"))
        del self._containers[found.name]
        self._tell(Change.CONTAINERS)

    @asynccontextmanager
    async def container_log(
        self,
        name: str,
        *,
        follow: bool,  # noqa: ARG002 - what is there is all that will come
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `port.Engine`."""
        self._answer()
        if self._find(name) is None:
            raise _absent(name)
        yield _no_output()

    async def changes(self) -> AsyncIterator[Change]:
        """See `port.Engine`."""
        self._answer()
        told: asyncio.Queue[Change] = asyncio.Queue()
        self._listening.add(told)
        try:
            for change in Change:
                yield change
            while True:
                change = await told.get()
                self._answer()
                yield change
        finally:
            self._listening.discard(told)

    async def close(self) -> None:
        """See `port.Engine`: nothing is open."""

    def die(self) -> None:
        """Answer nobody any more; pulls and subscriptions break off."""
        self._dead = True
        for change in Change:
            self._tell(change)

    def revive(self) -> None:
        """Answer again."""
        self._dead = False

    def end_container(self, name: str, exit_code: int) -> None:
        """Its process ends by itself."""
        found = self._find(name)
        if found is not None and found.running:
            at = time.time()
            self._put(
                replace(found, state="exited", running=False, exit_code=exit_code, ended_at=at)
            )

    async def _pulling(self, name: str) -> AsyncIterator[LayerEvent]:
        self._answer()
        image = self.library.get(name)
        if image is None:
            raise EngineError(
                Failure(FailureClass.NOT_FOUND, f"{name} is unknown", "manifest unknown")
            )
        held = {layer.digest for each in self._images.values() for layer in each.layers}
        for layer in image.layers:
            short = layer.digest.partition(":")[2][:12]
            if layer.digest not in held:
                for step in range(1, _STEPS + 1):
                    await asyncio.sleep(layer.size / _STEPS / self.bytes_per_second)
                    self._answer()
                    done = layer.size * step // _STEPS
                    yield LayerEvent(short, LayerStep.DOWNLOADING, done)
            yield LayerEvent(short, LayerStep.DONE)
        self._images[image.image_id] = image
        self._named[name] = image.image_id
        self._tell(Change.IMAGES)

    def _answer(self) -> None:
        if self._dead:
            raise EngineError(Failure(FailureClass.ENGINE_ERROR, "the engine does not answer"))

    def _local(self, image_id: str) -> LocalImage:
        names = sorted(name for name, held in self._named.items() if held == image_id)
        return LocalImage(
            image_id,
            tuple(name for name in names if "@" not in name),
            tuple(name for name in names if "@" in name),
            self._images[image_id].size,
        )

    def _used(self, image_id: str) -> bool:
        return any(each.image_id == image_id for each in self._containers.values())

    def _find(self, name: str) -> ContainerDetail | None:
        found = self._containers.get(name)
        every = self._containers.values()
        return found or next((each for each in every if each.container_id == name), None)

    def _put(self, container: ContainerDetail) -> None:
        self._containers[container.name] = container
        self._tell(Change.CONTAINERS)

    def _tell(self, change: Change) -> None:
        for queue in self._listening:
            queue.put_nowait(change)


async def _no_output() -> AsyncIterator[bytes]:
    return
    yield  # makes it a generator


def _repository(name: str) -> str:
    """`host/name` of a tag or a digest reference."""
    return name.partition("@")[0] if "@" in name else name.rpartition(":")[0]


def _is_tag_of(repository: str, name: str) -> bool:
    return "@" not in name and _repository(name) == repository


def _absent(name: str) -> EngineError:
    return EngineError(Failure(FailureClass.NOT_FOUND, f"{name} is no longer on this host"))
