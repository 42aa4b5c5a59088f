"""What a person can do about each class of failure."""

from collections.abc import Mapping
from typing import Final

from wharfinger.domain.failures import FailureClass

_ADVICE: Final[Mapping[str, str]] = {
    FailureClass.AUTH: "check the account: wharfinger registry add URL --username NAME "
    "--password-stdin",
    FailureClass.NOT_FOUND: "check the image's name and tag, and that it was pushed",
    FailureClass.RATE_LIMITED: "try again later, or give the registry an account",
    FailureClass.NETWORK: "check that the host reaches the registry, then create it again",
    FailureClass.REGISTRY_ERROR: "look at the registry's own log, then create it again",
    FailureClass.STALLED: "check the network between host and registry, then create it again",
    FailureClass.NO_SPACE: "free room on the host: wharfinger image unload REF --agents ID",
    FailureClass.WRONG_PLATFORM: "choose hosts of the image's platform with --sgroup, "
    "or push it for theirs",
    FailureClass.CORRUPT: "push the image anew, then create it again",
    FailureClass.ENGINE_ERROR: "check the command and the engine's own text above",
    FailureClass.IN_USE: "end what uses the image there",
    FailureClass.PROTECTED: "it is kept on purpose: wharfinger image unprotect REF, or the "
    "manager's and the host's settings",
    FailureClass.AGENT_LOST: "see which hosts are up: wharfinger agent ls; then create it again",
    FailureClass.CANCELLED: "create it again",
    FailureClass.INVALID_REFERENCE: "write the image as host[:port]/path/name[:tag]",
    FailureClass.NOT_AN_IMAGE: "name a container image; this is some other artifact",
    FailureClass.UNSUPPORTED: "check the command after --; or choose other hosts with --sgroup",
    FailureClass.INTERNAL: "look at the manager's log",
}


def what_to_do(failure_class: str) -> str:
    """A hint for a failure class; empty for one that is not known here."""
    return _ADVICE.get(failure_class, "")


def unknown_image(reference: str, role: str) -> str:
    """A hint for an image that a session may not ask for, to somebody of this role."""
    if role == "superadmin":
        return f"check that {reference} was pushed: your sessions make an image known by themselves"
    return f"an admin can register it, or grant it to you: wharfinger image register {reference}"
