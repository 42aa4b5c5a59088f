"""Sessions and kernels as the interfaces show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wharfinger.domain.sessions import FETCHING, session_status
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.moments import moment
from wharfinger.manager.storage.transitions import Transition


@dataclass(frozen=True, slots=True)
class PullFigures:
    """How far a kernel's image is: `phase`, bytes, bytes per second, seconds left."""

    phase: str
    bytes_done: int
    bytes_total: int
    bytes_per_second: float | None
    eta_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """With the keys of the interfaces."""
        return {
            "phase": self.phase,
            "bytesDone": self.bytes_done,
            "bytesTotal": self.bytes_total,
            "bytesPerSecond": self.bytes_per_second,
            "etaSeconds": self.eta_seconds,
        }


@dataclass(frozen=True, slots=True)
class KernelView:
    """One kernel, its log of transitions (oldest first) and, while it pulls, the pull."""

    row: Kernel
    transitions: Sequence[Transition]
    pull: PullFigures | None = None

    def to_json(self) -> dict[str, Any]:
        """The kernel object of the interfaces."""
        row = self.row
        return {
            "id": row.id,
            "agentId": row.agent_id,
            "reference": row.reference,
            "rootDigest": row.root_digest,
            "status": row.status.value,
            "statusInfo": row.status_info.value if row.status_info else "",
            "statusData": row.status_data,
            "attempts": row.attempts,
            "exitCode": row.exit_code,
            "failure": row.failure.to_json() if row.failure else None,
            "slots": row.slots.to_json(),
            "pull": self.pull.to_json() if self.pull else None,
            "transitions": [transition_to_json(each) for each in self.transitions],
        }


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session with its kernels, the main one first. `owner` is the user's name, or the id of
    one who is gone. Times are seconds since the epoch."""

    id: str
    name: str
    owner_id: str
    owner: str
    scaling_group: str | None
    created_at: float
    ended_at: float | None
    kernels: Sequence[KernelView]

    @property
    def status(self) -> KernelStatus:
        """What follows from its kernels."""
        return session_status([kernel.row.status for kernel in self.kernels])

    @property
    def _telling(self) -> Kernel | None:
        return next((k.row for k in self.kernels if k.row.status_info is not None), None)

    @property
    def status_info(self) -> str:
        """The first of its kernels that says something."""
        return self._telling.status_info or "" if self._telling else ""

    @property
    def status_data(self) -> Mapping[str, Any] | None:
        """What that kernel says with it."""
        return self._telling.status_data if self._telling else None

    def with_pulls(self, pulls: Mapping[str, PullFigures]) -> "SessionView":
        """With the live figures of its kernels' attempts, by attempt id, of those that pull."""
        return replace(
            self,
            kernels=[
                replace(kernel, pull=pulls.get(kernel.row.attempt_id or ""))
                if kernel.row.status in FETCHING
                else kernel
                for kernel in self.kernels
            ],
        )

    def to_json(self) -> dict[str, Any]:
        """The session object of the interfaces."""
        return {
            "id": self.id,
            "name": self.name,
            "owner": self.owner,
            "scalingGroup": self.scaling_group,
            "status": self.status.value,
            "statusInfo": self.status_info,
            "statusData": self.status_data,
            "createdAt": moment(self.created_at),
            "endedAt": None if self.ended_at is None else moment(self.ended_at),
            "kernels": [kernel.to_json() for kernel in self.kernels],
        }


def transition_to_json(transition: Transition) -> dict[str, Any]:
    """`{from, to, at, reason, by}`."""
    return {
        "from": transition.source,
        "to": transition.target,
        "at": moment(transition.at),
        "reason": transition.reason,
        "by": transition.by,
    }
