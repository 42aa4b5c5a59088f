"""What follows from the states of kernels: what they occupy, and how their session stands."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from wharfinger.domain.states import KERNEL_TRANSITIONS, KernelStatus

AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES: Final = frozenset(
    {
        KernelStatus.SCHEDULED,
        KernelStatus.PREPARING,
        KernelStatus.PULLING,
        KernelStatus.PREPARED,
        KernelStatus.CREATING,
        KernelStatus.RUNNING,
        KernelStatus.TERMINATING,
    }
)
"""The agent's slots are reserved."""

USER_RESOURCE_OCCUPYING_KERNEL_STATUSES: Final = AGENT_RESOURCE_OCCUPYING_KERNEL_STATUSES - {
    KernelStatus.PULLING
}
"""The user's quota is charged: a user pays nothing while a host downloads."""

BOUND: Final = (
    KernelStatus.SCHEDULED,
    KernelStatus.PREPARING,
    KernelStatus.PULLING,
    KernelStatus.PREPARED,
)
"""Bound to an agent, and surely without a container."""

FETCHING: Final = (KernelStatus.PREPARING, KernelStatus.PULLING)
"""Waits for its current attempt to bring its image."""

WITH_CONTAINER: Final = (KernelStatus.CREATING, KernelStatus.RUNNING, KernelStatus.TERMINATING)
"""There may be a container."""

OPEN: Final = KERNEL_TRANSITIONS.open
TERMINAL: Final = KERNEL_TRANSITIONS.terminal

_PROGRESS: Final = {status: place for place, status in enumerate(OPEN)}


class Reason(StrEnum):
    """Why a kernel is where it is: its `status_info`, empty when there is nothing to say."""

    RESOLVING_IMAGE = "resolving-image"
    """Its registry is being asked what the reference means."""
    REGISTRY_UNREACHABLE = "registry-unreachable"
    """Its registry gives no answer; asked again."""
    IN_LINE = "in-line"
    """An older session of the same user comes first."""
    USER_QUOTA_EXCEEDED = "user-quota-exceeded"
    """Its user's sessions occupy too much of the user's quota."""
    USER_SESSIONS_EXCEEDED = "user-sessions-exceeded"
    """Its user has as many sessions as allowed."""
    NO_SUITABLE_AGENT = "no-suitable-agent"
    """No agent could take it, even if it were empty."""
    NO_FREE_SLOTS = "no-free-slots"
    """The agents that could take it have too little free."""
    PENDING_IMAGE_PREPARATION = "pending-image-preparation"
    """The agents that could take it are being prepared for its image, or have it taken away."""
    RETRYING = "retrying"
    """A failure that may pass; tried again."""
    AGENT_LOST = "agent-lost"
    """Its agent is not heard of."""
    PULLS_LIMITED = "pulls-limited"
    """As many pulls are in flight as allowed."""
    IMAGE_GONE = "image-gone"
    """The image was taken away before its container was made."""
    ENDED_BY_USER = "ended-by-user"
    """Its owner, or a superadmin, ended it."""
    SESSION_ENDED = "session-ended"
    """Another kernel of its session ended."""
    CONTAINER_ENDED = "container-ended"
    """Its container ended by itself."""
    CONTAINER_VANISHED = "container-vanished"
    """Its container is no longer on its host."""
    CONTAINER_LEFT = "container-left"
    """It ended, but its host cannot remove the container."""
    FAILED = "failed"
    """Its failure says why."""


def session_status(kernels: Collection[KernelStatus]) -> KernelStatus:
    """A session's state: PULLING when any of its kernels is, else that of the one least far.

    Of ended kernels the worst counts, once all have ended.
    """
    living = [status for status in kernels if status not in TERMINAL]
    if KernelStatus.PULLING in living:
        return KernelStatus.PULLING
    if living:
        return min(living, key=_PROGRESS.__getitem__)
    for worst in (KernelStatus.ERROR, KernelStatus.CANCELLED):
        if worst in kernels:
            return worst
    return KernelStatus.TERMINATED
