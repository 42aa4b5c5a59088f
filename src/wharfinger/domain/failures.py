"""Why an image could not be brought or taken away: a closed list of classes.

Each class has a scope (whom it concerns), and by that whether trying again can help.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from wharfinger.domain.errors import WharfingerError


class FailureClass(StrEnum):
    """What kind of thing went wrong. Stable: people script against these."""

    AUTH = "auth"
    NOT_FOUND = "not-found"
    RATE_LIMITED = "rate-limited"
    NETWORK = "network"
    REGISTRY_ERROR = "registry-error"
    STALLED = "stalled"
    NO_SPACE = "no-space"
    WRONG_PLATFORM = "wrong-platform"
    CORRUPT = "corrupt"
    ENGINE_ERROR = "engine-error"
    IN_USE = "in-use"
    PROTECTED = "protected"
    AGENT_LOST = "agent-lost"
    CANCELLED = "cancelled"
    INVALID_REFERENCE = "invalid-reference"
    NOT_AN_IMAGE = "not-an-image"
    UNSUPPORTED = "unsupported"
    INTERNAL = "internal"


class Scope(StrEnum):
    """How far a failure reaches."""

    IMAGE = "image"
    """Every agent would meet it: final."""
    AGENT = "agent"
    """This agent cannot, others may: final for this agent."""
    TRANSIENT = "transient"
    """It may pass: tried again."""


SCOPES: Final[dict[FailureClass, Scope]] = {
    FailureClass.NOT_FOUND: Scope.IMAGE,
    FailureClass.AUTH: Scope.IMAGE,
    FailureClass.INVALID_REFERENCE: Scope.IMAGE,
    FailureClass.NOT_AN_IMAGE: Scope.IMAGE,
    FailureClass.WRONG_PLATFORM: Scope.AGENT,
    FailureClass.NO_SPACE: Scope.AGENT,
    FailureClass.PROTECTED: Scope.AGENT,
    FailureClass.IN_USE: Scope.AGENT,
    FailureClass.UNSUPPORTED: Scope.AGENT,
    FailureClass.CANCELLED: Scope.AGENT,
    FailureClass.INTERNAL: Scope.AGENT,
    FailureClass.NETWORK: Scope.TRANSIENT,
    FailureClass.REGISTRY_ERROR: Scope.TRANSIENT,
    FailureClass.RATE_LIMITED: Scope.TRANSIENT,
    FailureClass.STALLED: Scope.TRANSIENT,
    FailureClass.ENGINE_ERROR: Scope.TRANSIENT,
    FailureClass.CORRUPT: Scope.TRANSIENT,
    FailureClass.AGENT_LOST: Scope.TRANSIENT,
}

RETRY_DELAYS: Final[tuple[float, ...]] = (1.0, 5.0, 15.0)
"""Seconds to wait before the second, third and fourth attempt: three tries after the first."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure: its class, a sentence a person can act on, and the raw text it came with.

    `retry_after` is in seconds, where the other side asked for it.
    """

    failure_class: FailureClass
    message: str
    detail: str = ""
    retry_after: float | None = None

    @property
    def scope(self) -> Scope:
        """How far it reaches."""
        return SCOPES[self.failure_class]

    def to_json(self) -> dict[str, Any]:
        """`{class, message, detail}`, as the interfaces show it."""
        return {
            "class": self.failure_class.value,
            "message": self.message,
            "detail": self.detail,
        }


class FailureError(WharfingerError):
    """A failure met where nothing exists yet that could carry it."""

    def __init__(self, failure: Failure, /, **detail: Any) -> None:
        super().__init__(failure.message, raw=failure.detail, **detail)
        self.failure = failure
        self.code = failure.failure_class.value  # type: ignore[misc]


def met_after_resolving(failure: Failure) -> Failure:
    """A failure of a pull, knowing that the registry showed the image a moment before.

    An engine's `not-found` then says something of the registry's answers to it (an engine may take
    a refused HEAD or an unwanted media type for an absence), not of the image.
    """
    if failure.failure_class is not FailureClass.NOT_FOUND:
        return failure
    return Failure(
        FailureClass.REGISTRY_ERROR,
        "the registry showed this digest to us, but not to the engine: "
        "look at the registry's own log, and whether the image was deleted meanwhile",
        failure.detail,
        failure.retry_after,
    )


def retry_delay(failure: Failure, tries: int) -> float | None:
    """Seconds until the next try after `tries` of them failed, or None when it is final.

    What the other side asked for (Retry-After) wins over our own delays, upwards only.
    """
    if failure.scope is not Scope.TRANSIENT or tries > len(RETRY_DELAYS):
        return None
    return max(RETRY_DELAYS[tries - 1], failure.retry_after or 0.0)
