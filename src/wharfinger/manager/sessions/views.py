"""Sessions and kernels as the interfaces show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wharfinger.domain.sessions import FETCHING, Reason, session_status
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
    """One kernel, its log of transitions (oldest first) and, while it pulls or a preload holds it
    back, how far the pull is."""

    row: Kernel
    transitions: Sequence[Transition]
    pull: PullFigures | None = None

    @property
    def attempt_id(self) -> str | None:
        """The attempt that may be bringing its image: its own, or of the preload that holds it
        back."""
        if self.row.status in FETCHING:
            return self.row.attempt_id
        awaited: str | None = self._awaited.get("attemptId")
        return awaited

    @property
    def pulled_to(self) -> str | None:
        """The agent its image is brought to: its own, or the one it is held back from."""
        brought_to: str | None = self._awaited.get("agentId", self.row.agent_id)
        return brought_to

    @property
    def status_data(self) -> Mapping[str, Any] | None:
        """What it says with its `status_info`; of a preparation, with how far it is now: `progress`
        `{current, total, unit}` and `etaSeconds`, null where that is not known."""
        if not self._awaited or self.pull is None:
            return self.row.status_data
        done, total = self.pull.bytes_done, self.pull.bytes_total
        progress = {"current": done, "total": total, "unit": "bytes"}
        return {**self._awaited, "progress": progress, "etaSeconds": self.pull.eta_seconds}

    @property
    def _awaited(self) -> Mapping[str, Any]:
        """The preparation that holds it back; empty for none."""
        if self.row.status_info is not Reason.PENDING_IMAGE_PREPARATION:
            return {}
        return self.row.status_data or {}

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
            "statusData": self.status_data,
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
    def _telling(self) -> KernelView | None:
        return next((k for k in self.kernels if k.row.status_info is not None), None)

    @property
    def status_info(self) -> str:
        """The first of its kernels that says something."""
        return self._telling.row.status_info or "" if self._telling else ""

    @property
    def status_data(self) -> Mapping[str, Any] | None:
        """What that kernel says with it."""
        return self._telling.status_data if self._telling else None

    @property
    def attempts(self) -> list[str]:
        """The attempts that may be under way for its kernels."""
        return [kernel.attempt_id for kernel in self.kernels if kernel.attempt_id]

    def with_pulls(self, pulls: Mapping[str, PullFigures]) -> "SessionView":
        """With the live figures of its `attempts`, by attempt id."""
        return replace(
            self,
            kernels=[
                replace(kernel, pull=pulls.get(kernel.attempt_id)) if kernel.attempt_id else kernel
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
