"""Queues as rows: users with limits, agents with slots, sessions and their kernels."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert

from rig.rows import insert_agent
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.domain.sessions import TERMINAL
from wharfinger.domain.slots import Quota, Slots
from wharfinger.domain.states import KERNEL_TRANSITIONS, KernelStatus
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.storage import tables, transitions
from wharfinger.registry.images import PlatformImage, ResolvedImage

DIGEST = "sha256:" + "a" * 64
"""The root digest of kernels that need no other."""

ONE = Slots(cpu=1000, mem=2**30)
"""What kernels ask for that need no other."""

_numbers = itertools.count(1)


def insert_user(
    conn: Connection,
    name: str,
    quota: Quota = Quota(),  # noqa: B008  # frozen
    *,
    max_sessions: int | None = None,
    scaling_groups: Sequence[str] | None = None,
) -> None:
    """A user whose id is the name."""
    conn.execute(
        insert(tables.users).values(
            id=name,
            name=name,
            role="user",
            created_at=0.0,
            max_sessions=max_sessions,
            max_cpu=quota.cpu,
            max_mem=quota.mem,
            max_gpu=quota.gpu,
            scaling_groups=None if scaling_groups is None else list(scaling_groups),
        )
    )


def insert_host(conn: Connection, /, agent_id: str, slots: Slots = ONE, **differing: Any) -> None:
    """An agent of the group `default` with these slots; see `rig.rows.insert_agent`."""
    usual = {"scaling_group": "default", "slots": slots.to_json()}
    insert_agent(conn, agent_id, **(usual | differing))


def insert_image(
    conn: Connection, digest: str = DIGEST, *, platforms: Iterable[str] = ("linux/amd64",)
) -> None:
    """What a digest resolved to: an image for each of these platforms."""
    images = tuple(
        PlatformImage(Platform.parse(*platform.split("/")), digest, digest, ())
        for platform in platforms
    )
    reference = Reference.parse("h.test/image:v1")
    resolved.keep(conn, ResolvedImage(reference, digest, "application/vnd.oci.index", images))


def hold_image(conn: Connection, agent_id: str, digest: str = DIGEST) -> None:
    """The agent has the image."""
    conn.execute(
        insert(tables.agent_images).values(
            agent_id=agent_id,
            reference=f"h.test/image@{digest}",
            image_id=digest,
            root_digest=digest,
            size=1,
        )
    )


def insert_session(
    conn: Connection,
    /,
    session_id: str,
    *kernels: Mapping[str, Any],
    owner: str = "ada",
    **differing: Any,
) -> list[str]:
    """A session of pending kernels, one unless told; the kernels' ids, `<session>-<position>`.

    Each of `kernels` names what differs from a resolved one that asks for `ONE`; `slots` and
    `status` may be among it. Sessions are of the age in which they are inserted.
    """
    return insert_sessions(conn, [(session_id, owner, kernels or ({},), differing)])


def insert_sessions(
    conn: Connection,
    wanted: Iterable[tuple[str, str, Sequence[Mapping[str, Any]], Mapping[str, Any]]],
) -> list[str]:
    """Many `insert_session`s in few statements: (id, owner, kernels, what differs) of each."""
    sessions: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for session_id, owner, kernels, differing in wanted:
        usual = {
            "id": session_id,
            "name": session_id,
            "owner_id": owner,
            "scaling_group": None,
            "created_at": float(next(_numbers)),
            "blocked_since": None,
            "ended_at": None,
        }
        sessions.append(usual | dict(differing))
        rows.extend(
            _kernel(session_id, owner, position, kernel) for position, kernel in enumerate(kernels)
        )
    conn.execute(insert(tables.sessions), sessions)
    conn.execute(insert(tables.kernels), rows)
    ids = [row["id"] for row in rows]
    transitions.begin_all(conn, KERNEL_TRANSITIONS, ids, reason="asked for", by="test")
    return ids


def avoid(conn: Connection, agent_id: str, until: float, digest: str = DIGEST) -> None:
    """Sessions avoid the agent for this image."""
    conn.execute(
        insert(tables.avoided_images).values(
            agent_id=agent_id,
            root_digest=digest,
            until=until,
            failure={"class": "no-space", "message": "its disk is full", "detail": ""},
        )
    )


def _kernel(
    session_id: str, owner: str, position: int, differing: Mapping[str, Any]
) -> dict[str, Any]:
    told = dict(differing)
    slots: Slots = told.pop("slots", ONE)
    status = told.get("status", KernelStatus.PENDING)
    return {
        "id": f"{session_id}-{position}",
        "session_id": session_id,
        "position": position,
        "owner_id": owner,
        "reference": "h.test/image:v1",
        "registry": "h.test",
        "root_digest": DIGEST,
        "cpu": slots.cpu,
        "mem": slots.mem,
        "gpu": slots.gpu,
        "command": [],
        "environment": {},
        "status": KernelStatus.PENDING,
        "status_info": "",
        "status_data": None,
        "agent_id": None,
        "attempt_id": None,
        "image_id": None,
        "container_id": None,
        "attempts": 0,
        "tries": 0,
        "tried_on": None,
        "agents_failed": 0,
        "failing_since": None,
        "next_try_at": None,
        "calls": 0,
        "accepted_begun": None,
        "ends_as": None,
        "exit_code": None,
        "failure": None,
        "changed_at": 0.0,
        "started_at": None,
        "ended_at": 0.0 if status in TERMINAL else None,
    } | told
