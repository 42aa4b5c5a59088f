"""What can go wrong between a client and its manager."""

from typing import Any

from wharfinger.domain.errors import WharfingerError


class RemoteError(WharfingerError):
    """The manager refused, or failed. `code` is the class it gave."""

    def __init__(self, error_class: str, message: str, detail: Any = None) -> None:
        facts = detail if isinstance(detail, dict) else {"raw": detail} if detail else {}
        super().__init__(message)
        self.detail = facts
        self.code = error_class  # type: ignore[misc]  # a class per object: the manager's list grows

    @classmethod
    def from_json(cls, error: Any) -> "RemoteError | None":
        """From `{class, message, detail}`, or None where `error` is something else."""
        match error:
            case {"class": str(error_class), "message": str(message)}:
                return cls(error_class, message, error.get("detail"))
            case _:
                return None


class NotAManager(RemoteError):
    """What answers there does not speak as a manager does."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__("internal", f"what answers at {url} is not a Wharfinger manager: {why}")


class ServerUnreachable(WharfingerError):
    """The manager cannot be reached."""

    code = "network"


class ConnectionLost(ServerUnreachable):
    """The manager was reached, and the connection ended early."""


class NotConfigured(ServerUnreachable):
    """No manager is known: start one with `wharfinger up`, or set WHARFINGER_URL and WHARFINGER_TOKEN."""


class InvalidConnection(WharfingerError):
    """The URL of the manager, or the file it stands in, cannot be used."""

    code = "invalid-request"
