"""Tasks as the manager's API answers them."""

from typing import Final

from wharfinger.client.shapes import Failure, Item, Task, TaskHistory

MIB: Final = 1024 * 1024


def item(
    agent: str, status: str = "running", reference: str = "r:5000/app:v1", **more: object
) -> Item:
    """An item of 100 MiB; half of it done while it runs."""
    made: Item = {
        "agentId": agent,
        "reference": reference,
        "rootDigest": "sha256:" + "a" * 64,
        "status": status,
        "phase": "downloading" if status == "running" else "queued",
        "attempts": 0 if status in {"queued", "skipped"} else 1,
        "failure": failure() if status == "failed" else None,
        "bytesDone": {"running": 50, "done": 100}.get(status, 0) * MIB,
        "bytesTotal": 100 * MIB,
        "bytesPerSecond": 10.0 * MIB if status == "running" else None,
        "etaSeconds": 5.0 if status == "running" else None,
        "keptBy": [],
    }
    made.update(more)  # type: ignore[typeddict-item]  # whatever the test is about
    return made


def failure(failure_class: str = "no-space", message: str = "the disk is full") -> Failure:
    """A failure, by default one that is final."""
    return {"class": failure_class, "message": message, "detail": "ENOSPC"}


def task(*items: Item, status: str = "running", **more: object) -> Task:
    """A preload of these items."""
    made: Task = {
        "id": "task-1",
        "name": "preload",
        "owner": "admin",
        "status": status,
        "cancelRequested": False,
        "progress": {
            "current": sum(each["bytesDone"] for each in items),
            "total": sum(each["bytesTotal"] for each in items),
            "unit": "bytes",
        },
        "message": "",
        "failure": None,
        "detail": None,
        "waitsFor": [],
        "createdAt": "2026-01-02T03:04:05+00:00",
        "startedAt": "2026-01-02T03:04:06+00:00",
        "endedAt": None if status in {"pending", "running"} else "2026-01-02T03:05:05+00:00",
        "items": list(items),
    }
    made.update(more)  # type: ignore[typeddict-item]  # whatever the test is about
    return made


def history(made: Task) -> TaskHistory:
    """The same with its transitions."""
    return {
        **made,
        "transitions": [
            {
                "from": "pending",
                "to": "running",
                "at": "2026-01-02T03:04:06+00:00",
                "reason": "a manager took it",
                "by": "manager m1",
            }
        ],
    }
