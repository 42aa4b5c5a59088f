"""What an agent asks of a container engine. Every dialect implements this one Protocol, and one
conformance suite (`tests/conformance/test_engine.py`) says what it means.

Names given and returned are normalised references (`docker.io/library/busybox:latest`); the
adapter translates to and from the engine's spelling. Every call has its own time limit inside the
adapter and raises `EngineError` when the engine does not answer or answers an error.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from wharfinger.domain.errors import WharfingerError
from wharfinger.domain.failures import Failure
from wharfinger.domain.platforms import Platform


class EngineError(WharfingerError):
    """The engine could not do what was asked; `failure` says why, classed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, raw=failure.detail)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """`kind`: docker, podman, simulated. `store`: classic, containerd, or the driver's word."""

    kind: str
    version: str
    store: str
    platform: Platform
    inactivity_seconds: float
    """How long a healthy pull of this dialect may show no growing number."""


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image the engine holds. `image_id` is the engine's own (never compare across stores).

    `tags` and `digests` are normalised (`host/name:tag`, `host/name@sha256:…`), without the
    engine's placeholders for none. `size` is in bytes as the engine counts it. `platform` is known
    only from inspect (None from a listing).
    """

    image_id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int
    platform: Platform | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the engine, whoever made it. `state` is the engine's word."""

    container_id: str
    name: str
    image_id: str
    state: str


class LayerStep(StrEnum):
    """What a line of a pull's stream says of a layer."""

    WAITING = "waiting"
    """Queued behind other layers of the daemon."""
    DOWNLOADING = "downloading"
    DOWNLOADED = "downloaded"
    EXTRACTING = "extracting"
    DONE = "done"
    """Downloaded and unpacked, or there already."""
    RETRYING = "retrying"


@dataclass(frozen=True, slots=True)
class LayerEvent:
    """One step of one layer. `layer` is twelve hexadecimal digits of the compressed blob's digest.

    `current` is in compressed bytes. A DOWNLOADING event always has it (0 where nothing is told);
    an EXTRACTING event has None where the engine counts seconds instead, and is then by itself the
    sign that something goes on. Events about a whole layer have None.
    """

    layer: str
    step: LayerStep
    current: int | None = None


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """What the engine is to show the registry."""

    username: str
    password: str = field(repr=False)


class Engine(Protocol):
    """One container engine."""

    async def describe(self) -> EngineDescription:
        """Kind, version, store and platform, asked anew at each call."""

    async def inspect(self, name: str) -> LocalImage | None:
        """The image a reference (or an image id) means, or None. With `platform`."""

    async def images(self) -> list[LocalImage]:
        """All images, also those without a name. An odd entry is tolerated, never fatal."""

    async def containers(self) -> list[Container]:
        """All containers, running or not."""

    def pull(
        self, name: str, credentials: RegistryCredentials | None
    ) -> AbstractAsyncContextManager[AsyncIterator[LayerEvent]]:
        """Pull `host/name@sha256:…` over a connection of its own.

        The iterator ends when the stream ends; a failure in it, or before it, is raised as
        `EngineError`. An end proves nothing: inspect. Leaving the context closes the connection,
        which aborts the pull; there is no time limit, that is the caller's. Entering asks nothing:
        whatever waits, waits in the iterator.
        """

    async def tag(self, name: str, reference: str) -> None:
        """Give the image `name` means the name `reference` (`host/name:tag`), moving it."""

    async def untag(self, name: str) -> None:
        """Take one name away (and the image with its last one); never forced.

        Absent already is no error. In use is raised with class `in-use`.
        """

    def changes(self) -> AsyncIterator[None]:
        """Yields whenever images may have changed: a nudge, undebounced; first at once, when the
        subscription stands. Raises `EngineError` when the subscription ends."""

    async def close(self) -> None:
        """Close every connection."""
