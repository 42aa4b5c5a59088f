"""What an agent asks of a container engine. Every dialect implements this one Protocol, and one
conformance suite (`tests/conformance/test_engine*.py`) says what it means.

Names given and returned are normalised references (`docker.io/library/busybox:latest`); the
adapter translates to and from the engine's spelling. Every call has its own time limit inside the
adapter and raises `EngineError` when the engine does not answer or answers an error.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.errors import WharfingerError
from wharfinger.domain.failures import Failure
from wharfinger.domain.platforms import Platform


class EngineError(WharfingerError):
    """The engine could not do what was asked; `failure` says why, classed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, raw=failure.detail)
        self.failure = failure


class Unanswered(EngineError):
    """The engine was asked and gave no answer: it may have done it, or still do it."""


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """`kind`: docker, podman, simulated. `store`: classic, containerd, or the driver's word."""

    kind: str
    version: str
    store: str
    platform: Platform
    inactivity_seconds: float
    """How long a healthy pull of this dialect may show no growing number."""
    cpus: int = 0
    """Processors of the host; 0 when the engine does not tell."""
    memory: int = 0
    """Bytes of memory of the host; 0 when the engine does not tell."""


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image the engine holds. `image_id` is the engine's own (never compare across stores).

    `tags` and `digests` are normalised (`host/name:tag`, `host/name@sha256:…`), without the
    engine's placeholders for none. `size` is in bytes as the engine counts it. `platform` and
    `diff_ids` (the digests of the layers' uncompressed content, lowest first) are known only from
    inspect (None and empty from a listing).
    """

    image_id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int
    platform: Platform | None = None
    diff_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the engine, whoever made it. `state` is the engine's word."""

    container_id: str
    name: str
    image_id: str
    state: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerDetail:
    """One inspected container. Times are seconds since the epoch, None for what has not happened.

    `problem` is the engine's text of why it could not start or be removed.
    """

    container_id: str
    name: str
    image_id: str
    state: str
    labels: Mapping[str, str]
    running: bool
    exit_code: int | None
    """Of a process that ended."""
    out_of_memory: bool
    started_at: float | None
    ended_at: float | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container to be. `command` empty means the image's own; `cpu` in thousandths of a
    processor, `mem` in bytes; `gpus` are the ids of the devices it gets; `network` is `default`
    (the engine's), `none` or `host`."""

    name: str
    image_id: str
    labels: Mapping[str, str]
    command: Sequence[str]
    environment: Mapping[str, str]
    cpu: int
    mem: int
    gpus: Sequence[str]
    network: str


class Change(StrEnum):
    """What may have changed in an engine."""

    IMAGES = "images"
    CONTAINERS = "containers"


class ImageAbsent(EngineError):
    """The image a container was to be made of is not there."""


class NameTaken(EngineError):
    """Another container has this name."""


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

    async def layer_sizes(self, image: LocalImage) -> tuple[int, ...] | None:
        """Unpacked bytes of each layer of an inspected image, as its `diff_ids`; None where the
        engine does not tell them apart, or the image is gone."""

    async def disk(self) -> DiskSpace | None:
        """The file system that holds the images; None where this process cannot see it."""

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

    async def container(self, name: str) -> ContainerDetail | None:
        """The container with this name or id, or None."""

    async def create_container(self, spec: ContainerSpec) -> str:
        """Create it, not started, without any privilege; its id. Raises `ImageAbsent` or
        `NameTaken` for these two."""

    async def start_container(self, name: str) -> None:
        """Start it; one that runs already is no error."""

    async def stop_container(self, name: str, grace_seconds: float) -> None:
        """TERM, and KILL after the grace; returns once it has ended. A paused one goes on before
        that. One that does not run, or is not there, is no error."""

    async def remove_container(self, name: str) -> None:
        """Remove it with its anonymous volumes; never forced. Absent already is no error, nor
        that somebody is removing it now. One that runs is raised with class `in-use`."""

    def container_log(
        self, name: str, *, follow: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """What it wrote to both its outputs, in pieces, from its beginning; with `follow` on until
        it ends. Entering raises `EngineError` when there is none, the iterator for what goes wrong
        later. Leaving closes the connection."""

    def changes(self) -> AsyncIterator[Change]:
        """Yields whenever images or containers may have changed: a nudge, undebounced; first both,
        when the subscription stands. Raises `EngineError` when the subscription ends."""

    async def close(self) -> None:
        """Close every connection."""
