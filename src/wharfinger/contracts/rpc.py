"""Manager to agent: one POST per method, at `/rpc/<method>`.

Calls are short and carry a relative deadline in seconds. Repeating a call with the same ids
returns the present state. The manager sends the agent's call token as a bearer token; a call for
another incarnation is answered 409.
"""

from enum import StrEnum

from pydantic import Field, SecretStr, field_serializer

from wharfinger.contracts.wire import FailureReport, ImageEvidence, LayerSize, Wire

CHECK_AND_PULL = "/rpc/check-and-pull"
REMOVE_IMAGES = "/rpc/remove-images"
CANCEL = "/rpc/cancel"


class PullPolicy(StrEnum):
    """What the attempt may do on the host."""

    CHECK = "check"
    """Look only."""
    PRELOAD = "preload"
    """Pull, and move the tag to it."""
    SESSION = "session"
    """Pull, and set the tag only where there is none."""


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
    platform.
    """

    attempt_id: str
    reference: str
    root_digest: str
    layers: tuple[LayerSize, ...]
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
    """Not there as ordered (only for policy `check`)."""
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
    """Take `reference` away. `repo@digest` means every reference of that repository to the id."""

    removal_id: str
    reference: str


class RemoveImagesCall(Call):
    """A batch of removals. The agent answers at the deadline at the latest."""

    orders: tuple[RemovalOrder, ...]


class RemovalOutcome(StrEnum):
    """The present state of a removal."""

    REMOVED = "removed"
    """The reference is gone on inspect."""
    ABSENT = "absent"
    """It was not there."""
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


class CancelCall(Call):
    """Attempts nobody waits for any more. An unknown id is answered `aborted`, and stays so: a
    check-and-pull with it that arrives late is not begun."""

    attempt_ids: tuple[str, ...]


class CancelReply(Wire):
    """One answer per attempt, given once its pull has stopped or goes on for others."""

    answers: tuple[PullAnswer, ...]
