"""Sessions as the manager's API answers them."""

from wharfinger.client.shapes import Kernel, Pull, Session, Transition
from wharfinger.domain.sessions import session_status
from wharfinger.domain.states import KernelStatus

from .task_answers import MIB


def pull(done: int = 50, **more: object) -> Pull:
    """`done` of 100 MiB, at ten a second."""
    made: Pull = {
        "phase": "downloading",
        "bytesDone": done * MIB,
        "bytesTotal": 100 * MIB,
        "bytesPerSecond": 10.0 * MIB,
        "etaSeconds": (100 - done) / 10,
    }
    made.update(more)  # type: ignore[typeddict-item]  # whatever the test is about
    return made


def kernel(status: str = "PENDING", kernel_id: str = "k1", **more: object) -> Kernel:
    """A kernel; bound to gpu-a unless it is PENDING."""
    made: Kernel = {
        "id": kernel_id,
        "agentId": None if status == "PENDING" else "gpu-a",
        "reference": "r:5000/app:v1",
        "rootDigest": "sha256:" + "a" * 64,
        "status": status,
        "statusInfo": "",
        "statusData": None,
        "attempts": 0,
        "exitCode": None,
        "failure": None,
        "slots": {"cpu": 1.0, "mem": 1024 * MIB, "gpu": 0},
        "pull": pull() if status == "PULLING" else None,
        "command": [],
        "startedAt": None,
        "endedAt": None,
        "transitions": [],
    }
    made.update(more)  # type: ignore[typeddict-item]  # whatever the test is about
    return made


def session(*kernels: Kernel, **more: object) -> Session:
    """A session of these kernels, whose state and reason follow from them."""
    parts = list(kernels) or [kernel()]
    telling = next((each for each in parts if each["statusInfo"]), parts[0])
    made: Session = {
        "id": "s1",
        "name": "",
        "owner": "ada",
        "scalingGroup": None,
        "status": session_status([KernelStatus(each["status"]) for each in parts]).value,
        "statusInfo": telling["statusInfo"],
        "statusData": telling["statusData"],
        "createdAt": "2026-01-02T03:04:05+00:00",
        "endedAt": None,
        "kernels": parts,
    }
    made.update(more)  # type: ignore[typeddict-item]  # whatever the test is about
    return made


def transition(source: str | None, target: str) -> Transition:
    """One change of state."""
    at = "2026-01-02T03:04:06+00:00"
    return {"from": source, "to": target, "at": at, "reason": "so", "by": "manager m1"}
