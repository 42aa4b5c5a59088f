"""One tree of errors with stable codes: what is refused before anything exists.

A code is either a failure class (`wharfinger.domain.failures.FailureClass`) or a refusal. Each
border (database, engine, registry, HTTP) translates what it meets into this tree once.
"""

from typing import Any, ClassVar


class WharfingerError(Exception):
    """Something went wrong inside Wharfinger.

    The docstring of a class is its default message. `detail` holds JSON-ready facts that a
    program may act on; `message` is for a person.
    """

    code: ClassVar[str] = "internal"

    def __init__(self, message: str | None = None, /, **detail: Any) -> None:
        self.message: str = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.detail: dict[str, Any] = detail
        super().__init__(self.message)

    def to_json(self) -> dict[str, Any]:
        """The `error` object of the interfaces: `{class, message, detail}`."""
        return {"class": self.code, "message": self.message, "detail": self.detail}


class InvalidRequest(WharfingerError):
    """The request is not well formed."""

    code = "invalid-request"


class InvalidReference(WharfingerError):
    """This is not an image reference."""

    code = "invalid-reference"


class UnknownSelector(WharfingerError):
    """A selector names no scaling group and no agent."""

    code = "unknown-selector"


class NoAgents(WharfingerError):
    """The selectors match no agent."""

    code = "no-agents"


class UnknownRegistry(WharfingerError):
    """The registry of this reference is not known here."""

    code = "unknown-registry"


class Forbidden(WharfingerError):
    """You are not allowed to do this."""

    code = "forbidden"


class Unauthenticated(Forbidden):
    """No valid token was sent."""


class RescanBlocked(WharfingerError):
    """Images are being downloaded, so that the catalogue cannot be read anew now."""

    code = "rescan-blocked"


class Conflict(WharfingerError):
    """The present state does not allow this."""

    code = "conflict"


class UnknownId(WharfingerError):
    """There is nothing with this id."""

    code = "unknown-id"


class IllegalTransition(WharfingerError):
    """A state may not follow another; the manager asked for it all the same."""


class StaleIncarnation(Conflict):
    """A newer process of this agent has registered since."""
