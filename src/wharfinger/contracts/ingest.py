"""Agent to manager: registration, then one POST every few seconds with everything.

`POST /agents/register` with a join token (first time) or the agent's own credential (later);
`POST /agents/report` with the credential. Both are bearer tokens.
"""

from typing import Annotated, Literal

from pydantic import Field

from wharfinger.contracts.rpc import KernelContainer
from wharfinger.contracts.wire import DiskSpace, FailureReport, ImageEvidence, Wire
from wharfinger.domain.progress import Phase

REGISTER = "/agents/register"
REPORT = "/agents/report"


class EngineFacts(Wire):
    """The engine beside the agent. `kind`: docker, podman, simulated; `store`: classic,
    containerd, or the storage driver's own word. `problem` is empty while it answers."""

    kind: str
    version: str
    store: str
    problem: str = ""


class Capacity(Wire):
    """What sessions may use of a host: `cpu` in thousandths of a processor, `mem` in bytes."""

    cpu: int = 0
    mem: int = 0
    gpu: int = 0


class Registration(Wire):
    """An agent's process says who it is and where it listens.

    `call_token` is what the manager must send to this incarnation. `engine` is None while the
    engine has never answered.
    """

    agent_id: str
    scaling_group: str
    incarnation: str
    address: str
    call_token: str
    version: str
    os: str
    architecture: str
    variant: str = ""
    engine: EngineFacts | None = None
    capacity: Capacity | None = None


class Registered(Wire):
    """The manager's answer. `credential` is set only when the agent joined with a join token.

    `cluster_id` marks the containers of this cluster: another one may use the same engine.
    """

    credential: str | None = None
    cluster_id: str = ""
    report_seconds: float = 1.0


class _Event(Wire):
    sequence: int
    attempt_id: str
    reference: str
    root_digest: str


class ImagePullStarted(_Event):
    """The engine was asked to pull."""

    type: Literal["ImagePullStarted"] = "ImagePullStarted"


class ImagePullFinished(_Event):
    """The image is there, as `evidence` shows."""

    type: Literal["ImagePullFinished"] = "ImagePullFinished"
    evidence: ImageEvidence


class ImagePullFailed(_Event):
    """The attempt ended without the image. Class `cancelled` means it was aborted."""

    type: Literal["ImagePullFailed"] = "ImagePullFailed"
    failure: FailureReport


Event = Annotated[
    ImagePullStarted | ImagePullFinished | ImagePullFailed, Field(discriminator="type")
]


class AttemptProgress(Wire):
    """How far an attempt is: bytes of the manifest's layers; rate and eta from the last 30 s."""

    attempt_id: str
    phase: Phase
    bytes_done: int
    bytes_total: int
    bytes_per_second: float | None = None
    eta_seconds: float | None = None


class InventoryImage(Wire):
    """One image id the engine holds, with all its names (normalised references)."""

    image_id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int = 0


class Inventory(Wire):
    """A full listing. `version` is the agent's own mark of this listing's content.

    `asked` is the last version in an acknowledgement that no listing of the agent had: by it the
    manager asked for a listing begun after that acknowledgement, and this is one.
    """

    version: str
    asked: str = ""
    images: tuple[InventoryImage, ...]


class Report(Wire):
    """Everything an agent has to say.

    `in_hand` are the attempts this incarnation works on; `begun` counts reports begun by it (a
    report begun before an order was accepted says nothing about that order). `events` are all that
    are not acknowledged yet, by ascending sequence. `inventory` is sent when it differs from what
    was acknowledged; `inventory_version` always names the present one ("" before the first).

    `containers` are all of ours on the engine, running or not; None while the engine does not say.
    `kernels_in_hand` are those whose container is being made, so that a missing one is not yet
    missed. `capacity` is None until the engine has told it once. `disk` is None where the agent
    cannot see the engine's data root.
    """

    incarnation: str
    begun: int
    engine: EngineFacts | None = None
    in_hand: tuple[str, ...] = ()
    progress: tuple[AttemptProgress, ...] = ()
    events: tuple[Event, ...] = ()
    inventory_version: str = ""
    inventory: Inventory | None = None
    capacity: Capacity | None = None
    containers: tuple[KernelContainer, ...] | None = None
    kernels_in_hand: tuple[str, ...] = ()
    disk: DiskSpace | None = None


class Acknowledgement(Wire):
    """Sent after the manager's commit: events up to `sequence` and this inventory are kept."""

    sequence: int
    inventory_version: str
    report_seconds: float
