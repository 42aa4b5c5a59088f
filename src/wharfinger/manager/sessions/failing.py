"""What follows when a kernel could not be brought to run: again, on another agent, or its end.

Failures in a row are counted on the kernel (`tries` on `tried_on`, `agents_failed`,
`failing_since`). The row ends when its container runs; an image that was brought does not end it,
or a container that can never be made would be tried for ever.
"""

from typing import Any, Final, assert_never

from sqlalchemy import Connection, select

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.platforms import Platform
from wharfinger.domain.retries import AVOID_SECONDS, Again, Elsewhere, GiveUp, after_failure
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.domain.suitability import may_use, suits
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.sessions import endings, kernels
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.moments import moment
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.put import put

_ENDED: Final = frozenset({KernelStatus.TERMINATING, KernelStatus.TERMINATED})


def apply(conn: Connection, kernel: Kernel, failure: Failure, *, by: str) -> bool:
    """Do what follows from a failure of this kernel on its agent; False when that is stale.

    The kernel is locked, and surely without a container: PREPARING, PULLING, or CREATING by its
    agent's word. It goes back to the queue, or its session ends. A failure that is its lost
    agent's is not counted. One whose container cannot be made while others of its session run
    ends the session, and so does any once others have ended: they start together or end together.
    """
    assert kernel.agent_id is not None, "what fails is bound"
    assert kernel.root_digest is not None, "what is bound is resolved"
    reason = f"{failure.failure_class}: {failure.message}"
    if failure.failure_class is FailureClass.AGENT_LOST and _is_away(conn, kernel.agent_id):
        lost = {"agentId": kernel.agent_id}
        return kernels.back_to_queue(
            conn, kernel, reason=reason, by=by, info=Reason.AGENT_LOST, data=lost
        )
    if _others_began(conn, kernel):
        return endings.fail(conn, kernel, failure, by=by)
    at = now(conn)
    tries = kernel.tries + 1 if kernel.tried_on == kernel.agent_id else 1
    failing_since = at if kernel.failing_since is None else kernel.failing_since
    verdict = after_failure(
        failure,
        tries=tries,
        agents_failed=kernel.agents_failed,
        others=_another_may_take(conn, kernel),
        failing_for=at - failing_since,
    )
    match verdict:
        case Again(delay):
            return kernels.back_to_queue(
                conn,
                kernel,
                reason=reason,
                by=by,
                info=Reason.RETRYING,
                data={"failure": failure.to_json(), "nextTryAt": moment(at + delay)},
                tries=tries,
                tried_on=kernel.agent_id,
                failing_since=failing_since,
                next_try_at=at + delay,
            )
        case Elsewhere():
            told: dict[str, Any] = {"failure": failure.to_json()}
            if not _is_the_requests(kernel, failure):
                told["avoidedAgentId"] = kernel.agent_id
                until = at + AVOID_SECONDS
                _avoid(conn, kernel.agent_id, kernel.root_digest, failure, until=until)
            return kernels.back_to_queue(
                conn,
                kernel,
                reason=reason,
                by=by,
                info=Reason.RETRYING,
                data=told,
                tries=0,
                tried_on=None,
                agents_failed=kernel.agents_failed + 1,
                failing_since=failing_since,
                next_try_at=None,
            )
        case GiveUp():
            return endings.fail(conn, kernel, failure, by=by)
        case _:
            assert_never(verdict)


def _is_away(conn: Connection, agent_id: str) -> bool:
    """Whether the agent is LOST, retired, or gone from the table."""
    status = conn.scalar(select(tables.agents.c.status).where(tables.agents.c.id == agent_id))
    return status not in {AgentStatus.JOINING, AgentStatus.UP}


def _is_the_requests(kernel: Kernel, failure: Failure) -> bool:
    """Whether it says nothing about the image, nor about the sessions of others: a command that the
    image does not have, or a device that the host does not."""
    creating = kernel.status is KernelStatus.CREATING
    return creating and failure.failure_class is FailureClass.UNSUPPORTED


def _others_began(conn: Connection, kernel: Kernel) -> bool:
    """Whether others of its session ran to their end, or run while its container is made."""
    began = _ENDED
    if kernel.status is KernelStatus.CREATING:
        began = began | {KernelStatus.RUNNING}
    siblings = kernels.of_session(conn, kernel.session_id)
    return any(sibling.status in began for sibling in siblings)


def _another_may_take(conn: Connection, kernel: Kernel) -> bool:
    """Whether any other agent could run it, if it were empty, and is not avoided for its image."""
    agents, avoided, sessions, users = (
        tables.agents,
        tables.avoided_images,
        tables.sessions,
        tables.users,
    )
    asked = conn.execute(
        select(sessions.c.scaling_group, users.c.scaling_groups)
        .outerjoin(users, users.c.id == sessions.c.owner_id)
        .where(sessions.c.id == kernel.session_id)
    ).one()
    digest = kernel.root_digest or ""
    images = resolved.platforms(conn, (digest,)).get(digest)
    failed_there = select(avoided.c.agent_id).where(
        avoided.c.root_digest == kernel.root_digest, avoided.c.until > now(conn)
    )
    rows = conn.execute(
        select(agents).where(
            agents.c.id != kernel.agent_id,
            agents.c.status == AgentStatus.UP,
            agents.c.cordoned.is_(False),
            agents.c.id.not_in(failed_there),
        )
    )
    return any(
        may_use(row.scaling_group, asked.scaling_group, asked.scaling_groups)
        and suits(Platform.parse(row.os, row.architecture, row.variant), images)
        and kernel.slots.fits(Slots.from_json(row.slots))
        for row in rows
    )


def _avoid(
    conn: Connection, agent_id: str, root_digest: str, failure: Failure, *, until: float
) -> None:
    put(
        conn,
        tables.avoided_images,
        {"agent_id": agent_id, "root_digest": root_digest},
        {"until": until, "failure": failure.to_json()},
    )
