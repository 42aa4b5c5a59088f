"""Manager to agent: one POST per method, at `/rpc/<method>`.

Calls are short and carry a relative deadline in seconds. Repeating a call with the same ids
returns the present state. The manager sends the agent's call token as a bearer token; a call for
another incarnation is answered 409.
"""

from enum import StrEnum
from typing import Final

from pydantic import Base64Bytes, Field, SecretStr, field_serializer

from wharfinger.contracts.wire import DiskSpace, FailureReport, ImageEvidence, LayerSize, Wire

CHECK_AND_PULL = "/rpc/check-and-pull"
REMOVE_IMAGES = "/rpc/remove-images"
SURVEY_REMOVALS = "/rpc/survey-removals"
SURVEY_PULLS = "/rpc/survey-pulls"
CANCEL = "/rpc/cancel"
CREATE_KERNELS = "/rpc/create-kernels"
END_KERNELS = "/rpc/end-kernels"
REMOVE_KERNELS = "/rpc/remove-kernels"
KERNEL_LOG = "/rpc/kernel-log"

LOG_LIMIT: Final = 1024 * 1024
"""Bytes of a container's log that are kept after its end."""


class PullPolicy(StrEnum):
    """What the attempt may do on the host."""

    CHECK = "check"
    """Look only."""
    PRELOAD = "preload"
    """Pull, and move the tag to it."""
    SESSION = "session"
    """Pull, and set the tag only where there is none."""
    LOOK = "look"
    """Look only, on behalf of a session: content with the digest."""


class Credentials(Wire):
    """The registry's user and password, sent only with the attempt that needs them."""

    username: str
    password: SecretStr

    @field_serializer("password", when_used="json")
    def _reveal(self, password: SecretStr) -> str:
        return password.get_secret_value()


class PullOrder(Wire):
    """One attempt: make `reference` present at `root_digest`.

    `reference` is canonical (`host/name[:tag][@digest]`). `layers` are those of the agent's
    platform; `diff_ids` are the digests of their uncompressed content, in the same order, or empty
    where they are not known. A pull that surely leaves less than `disk_margin` bytes free is not
    begun: it fails as `no-space`.
    """

    attempt_id: str
    reference: str
    root_digest: str
    layers: tuple[LayerSize, ...]
    diff_ids: tuple[str, ...] = ()
    disk_margin: int = 0
    policy: PullPolicy
    credentials: Credentials | None = None


class Call(Wire):
    """What every call carries: the incarnation it is meant for and its relative deadline."""

    incarnation: str
    deadline_seconds: float = Field(gt=0)


class CheckAndPullCall(Call):
    """A batch of attempts."""

    orders: tuple[PullOrder, ...]


class PullOutcome(StrEnum):
    """The present state of an attempt on the agent."""

    PRESENT = "present"
    """The image is there as ordered; `evidence` shows it."""
    ABSENT = "absent"
    """Not there as ordered (only for those policies that look only)."""
    PULLING = "pulling"
    """Under way; `task_id` names the agent's pull, and it ends in an event."""
    FAILED = "failed"
    """Ended; `failure` says why."""
    ABORTED = "aborted"
    """Cancelled, and no byte of it moves any more."""


class PullAnswer(Wire):
    """The state of one attempt."""

    attempt_id: str
    outcome: PullOutcome
    task_id: str | None = None
    evidence: ImageEvidence | None = None
    failure: FailureReport | None = None


class CheckAndPullReply(Wire):
    """One answer per order, in their order."""

    answers: tuple[PullAnswer, ...]


class RemovalOrder(Wire):
    """Take `reference` away. `repo@digest` means every reference of that repository to the id.

    With an `image_id` it is done only while the reference is that image's.
    """

    removal_id: str
    reference: str
    image_id: str | None = None


class RemoveImagesCall(Call):
    """A batch of removals. The agent answers at the deadline at the latest."""

    orders: tuple[RemovalOrder, ...]


class RemovalOutcome(StrEnum):
    """The present state of a removal."""

    REMOVED = "removed"
    """The reference is gone on inspect."""
    ABSENT = "absent"
    """It was not there."""
    CHANGED = "changed"
    """It is another image's by now: survey it anew. Nothing was removed."""
    FAILED = "failed"
    """Not removed; `failure` says why."""
    RUNNING = "running"
    """Not ended yet: ask again with the same id."""


class RemovalAnswer(Wire):
    """The state of one removal. `kept_by` lists references that still hold the layers."""

    removal_id: str
    outcome: RemovalOutcome
    kept_by: tuple[str, ...] = ()
    failure: FailureReport | None = None


class RemoveImagesReply(Wire):
    """One answer per order, in their order."""

    answers: tuple[RemovalAnswer, ...]


class ImageUser(Wire):
    """A container that uses an image. `kernel_id` is set for one of ours."""

    container_id: str
    name: str
    state: str
    kernel_id: str | None = None


class RemovalSurvey(Wire):
    """What a removal would meet and do now; nothing is changed by asking.

    `image_id` is None when there is nothing to remove. `root_digests` are bare digests the image is
    known by. `going` are the names that would go, `kept_by` those that would go on holding it.
    `bytes_freed` counts the layers no other image shares (0 while `kept_by` is not empty); None
    where the engine does not tell.
    """

    removal_id: str
    image_id: str | None = None
    root_digests: tuple[str, ...] = ()
    going: tuple[str, ...] = ()
    kept_by: tuple[str, ...] = ()
    users: tuple[ImageUser, ...] = ()
    bytes_freed: int | None = None
    failure: FailureReport | None = None


class SurveyRemovalsCall(Call):
    """A batch of removals to look into. `want_bytes` asks for `bytes_freed`, which takes longer."""

    orders: tuple[RemovalOrder, ...]
    want_bytes: bool = False


class SurveyRemovalsReply(Wire):
    """One survey per order, in their order."""

    surveys: tuple[RemovalSurvey, ...]


class PullSurvey(Wire):
    """What a pull would meet and take now; nothing is changed by asking.

    `evidence` is the image where some is there under the name. `bytes_missing` counts compressed
    bytes to download, after the layers that are there already; `bytes_needed` is what the engine's
    store needs on disk for them at least. `layers_known` is false where the order had no
    `diff_ids`, so that layers there could not be found.
    """

    attempt_id: str
    evidence: ImageEvidence | None = None
    bytes_missing: int = 0
    bytes_needed: int = 0
    layers_known: bool = True
    failure: FailureReport | None = None


class SurveyPullsCall(Call):
    """A batch of pulls to look into."""

    orders: tuple[PullOrder, ...]


class SurveyPullsReply(Wire):
    """One survey per order, in their order; `disk` as in a report."""

    surveys: tuple[PullSurvey, ...]
    disk: DiskSpace | None = None


class CancelCall(Call):
    """Attempts nobody waits for any more. An unknown id is answered `aborted`, and stays so: a
    check-and-pull with it that arrives late is not begun."""

    attempt_ids: tuple[str, ...]


class CancelReply(Wire):
    """One answer per attempt, given once its pull has stopped or goes on for others."""

    answers: tuple[PullAnswer, ...]


class KernelOrder(Wire):
    """One container to create and start, by a verified local image id.

    `command` empty means the image's own. `cpu` is in thousandths of a processor, `mem` in bytes,
    `gpu` in devices.
    """

    kernel_id: str
    session_id: str
    owner: str
    image_id: str
    reference: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    cpu: int
    mem: int
    gpu: int = 0


class CreateKernelsCall(Call):
    """A batch of containers. Repeating it adopts what the first call made; the agent answers at
    the deadline at the latest."""

    orders: tuple[KernelOrder, ...]


class CreateOutcome(StrEnum):
    """The present state of a container that was ordered."""

    CREATING = "creating"
    """Not started yet: ask again."""
    STARTED = "started"
    """It runs, or ran and has ended already; `container` says which."""
    IMAGE_GONE = "image-gone"
    """The image is no longer there, and no container exists."""
    FAILED = "failed"
    """It could not be made, `failure` says why, and no container exists."""
    ENDED = "ended"
    """An order to end it came first; no container exists, and none will."""


class KernelContainer(Wire):
    """A container of ours on this engine.

    `state` is the engine's word (created, running, exited, dead, …); `ended` tells whether its
    process is gone after it ran. Times are seconds since the epoch by the engine's clock.
    `problem` is the engine's own text where it could not start or remove it.
    """

    kernel_id: str
    session_id: str = ""
    container_id: str
    image_id: str = ""
    state: str
    ended: bool = False
    exit_code: int | None = None
    out_of_memory: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    problem: str = ""

    @property
    def began(self) -> bool:
        """Whether its process was started, even if it has ended since."""
        return self.ended or self.started_at is not None


class CreateAnswer(Wire):
    """The state of one ordered container."""

    kernel_id: str
    outcome: CreateOutcome
    container: KernelContainer | None = None
    failure: FailureReport | None = None


class CreateKernelsReply(Wire):
    """One answer per order, in their order."""

    answers: tuple[CreateAnswer, ...]


class EndOrder(Wire):
    """Stop one container: TERM, and KILL after `grace_seconds`. With `want_log` the end of its log
    is answered."""

    kernel_id: str
    grace_seconds: float = 10.0
    want_log: bool = True


class EndKernelsCall(Call):
    """A batch of containers to stop. From now on the agent makes none of these. The containers
    stay, stopped, until `remove-kernels`; the agent answers at the deadline at the latest."""

    orders: tuple[EndOrder, ...]


class EndOutcome(StrEnum):
    """The present state of a container that is to end."""

    RUNNING = "running"
    """Not stopped yet: ask again."""
    ENDED = "ended"
    """Its process is gone; `container` and `log` are what is left."""
    ABSENT = "absent"
    """There is no container, and none will be made."""
    FAILED = "failed"
    """The engine could not stop it; `failure` says why."""


class KernelLog(Wire):
    """The last bytes of a container's output, base64; `truncated` when there was more."""

    data: Base64Bytes
    truncated: bool


class EndAnswer(Wire):
    """The state of one container."""

    kernel_id: str
    outcome: EndOutcome
    container: KernelContainer | None = None
    log: KernelLog | None = None
    failure: FailureReport | None = None


class EndKernelsReply(Wire):
    """One answer per order, in their order."""

    answers: tuple[EndAnswer, ...]


class RemoveKernelsCall(Call):
    """Remove containers that have ended. One that runs is refused."""

    kernel_ids: tuple[str, ...]


class KernelRemovalAnswer(Wire):
    """`failure` is None once there is no container of this kernel."""

    kernel_id: str
    failure: FailureReport | None = None


class RemoveKernelsReply(Wire):
    """One answer per kernel, in their order."""

    answers: tuple[KernelRemovalAnswer, ...]


class KernelLogCall(Call):
    """The output of a container as it is: a stream of bytes, at most the last `tail_bytes`, then
    (with `follow`) what comes until it ends. 404 when there is no container of this kernel."""

    kernel_id: str
    tail_bytes: int = Field(default=LOG_LIMIT, ge=0, le=LOG_LIMIT)
    follow: bool = False
