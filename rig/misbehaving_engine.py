"""An engine in memory that misbehaves in ways a real one cannot be made to at will. It holds images
alone: whatever it is asked about a container, there is none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from wharfinger.agent.engine.port import (
    Change,
    Container,
    ContainerDetail,
    ContainerSpec,
    EngineDescription,
    EngineError,
    LayerEvent,
    LayerStep,
    LocalImage,
    RegistryCredentials,
)
from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.platforms import Platform

DIGEST = "sha256:" + "d" * 64
NAME = "example.org/a"
PINNED = f"{NAME}@{DIGEST}"
LAYER = LayerEvent("a" * 12, LayerStep.DOWNLOADING, 1)
NO_CONTAINER = EngineError(Failure(FailureClass.ENGINE_ERROR, "there is no such container"))
DEAD = EngineError(Failure(FailureClass.ENGINE_ERROR, "the engine does not answer"))


def nothing(_: "MisbehavingEngine") -> None:
    """The end of a stream that tells the truth about having done nothing."""


@dataclass
class MisbehavingEngine:
    """An engine in memory whose pull does what `at_end` says when the stream is let go."""

    at_end: Callable[["MisbehavingEngine"], None] = nothing
    held: dict[str, LocalImage] = field(default_factory=dict)
    dead: bool = False
    space: DiskSpace | None = None
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of layers, by image id."""
    listings: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self) -> None:
        """Have the image from now on."""
        self.held[PINNED] = LocalImage("id", (), (PINNED,), 1, Platform("linux", "amd64"))

    async def describe(self) -> EngineDescription:
        return EngineDescription("docker", "20", "classic", Platform("linux", "amd64"), 60.0)

    async def inspect(self, name: str) -> LocalImage | None:
        if self.dead:
            raise DEAD
        return self.held.get(name)

    async def images(self) -> list[LocalImage]:
        self.listings += 1
        return list(self.held.values())

    async def layer_sizes(self, image: LocalImage) -> tuple[int, ...] | None:
        return self.sizes.get(image.image_id)

    async def disk(self) -> DiskSpace | None:
        return self.space

    async def containers(self) -> list[Container]:
        return []

    @asynccontextmanager
    async def pull(
        self, name: str, credentials: RegistryCredentials | None
    ) -> AsyncIterator[AsyncIterator[LayerEvent]]:
        assert (name, credentials) == (PINNED, None)
        self.asked.set()
        try:
            yield self._lines()
        finally:
            self.closed.set()

    async def _lines(self) -> AsyncIterator[LayerEvent]:
        yield LAYER
        await self.let_go.wait()
        self.at_end(self)

    async def tag(self, name: str, reference: str) -> None:
        image = self.held[name]
        self.held[PINNED] = self.held[reference] = LocalImage(
            image.image_id, (*image.tags, reference), image.digests, 1, image.platform
        )

    async def untag(self, name: str) -> None:
        self.held.pop(name, None)

    async def container(self, name: str) -> ContainerDetail | None:  # noqa: ARG002
        return None

    async def create_container(self, spec: ContainerSpec) -> str:  # noqa: ARG002
        raise NO_CONTAINER

    async def start_container(self, name: str) -> None:  # noqa: ARG002
        raise NO_CONTAINER

    async def stop_container(self, name: str, grace_seconds: float) -> None:
        """There is none to stop."""

    async def remove_container(self, name: str) -> None:
        """There is none to remove."""

    @asynccontextmanager
    async def container_log(
        self,
        name: str,  # noqa: ARG002
        *,
        follow: bool,  # noqa: ARG002
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        raise NO_CONTAINER
        yield  # makes it a generator

    async def changes(self) -> AsyncIterator[Change]:
        for change in Change:
            yield change
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is open."""
