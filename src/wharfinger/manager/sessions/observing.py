"""What a container that was seen, or not seen, tells of its kernel and its session."""

from dataclasses import replace

from sqlalchemy import Connection, select

from wharfinger.contracts.rpc import KernelContainer
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions import endings, kernels
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import agents


def started(conn: Connection, kernel: Kernel, container: KernelContainer, *, by: str) -> bool:
    """The container of a CREATING kernel began; the reports its agent began before say nothing
    about it. One that has ended already takes its kernel further at once."""
    begun = conn.scalar(select(agents.c.reports_begun).where(agents.c.id == kernel.agent_id))
    moved = kernels.move(
        conn,
        kernel,
        KernelStatus.RUNNING,
        reason="the container runs",
        by=by,
        container_id=container.container_id,
        started_at=now(conn) if container.started_at is None else container.started_at,
        accepted_begun=begun,
        next_try_at=None,
    )
    if moved and container.ended:
        ended(conn, replace(kernel, status=KernelStatus.RUNNING), container, by=by)
    return moved


def ended(conn: Connection, kernel: Kernel, container: KernelContainer, *, by: str) -> bool:
    """The container of a RUNNING kernel ended by itself.

    The main kernel's end is its session's, and so is any that does not end well.
    """
    code = container.exit_code
    reason = f"its container ended with code {'unknown' if code is None else code}"
    out_of_memory = {"outOfMemory": True} if container.out_of_memory else {}
    moved = kernels.move(
        conn,
        kernel,
        KernelStatus.TERMINATING,
        reason=reason,
        by=by,
        info=Reason.CONTAINER_ENDED,
        data={"exitCode": code, **out_of_memory},
        ends_as=KernelStatus.TERMINATED,
        exit_code=code,
    )
    if moved and (kernel.position == 0 or code != 0):
        endings.end(
            conn,
            kernel.session_id,
            KernelStatus.TERMINATED,
            reason=reason,
            by=by,
            info=Reason.CONTAINER_ENDED,
            culprit=kernel.id,
        )
    return moved


def vanished(conn: Connection, kernel: Kernel, *, by: str) -> bool:
    """The container of a RUNNING kernel is no longer on its host."""
    failure = Failure(
        FailureClass.ENGINE_ERROR,
        f"its container is no longer on agent {kernel.agent_id}: somebody removed it there",
        kernel.container_id or "",
    )
    return broke_off(conn, kernel, failure, by=by, info=Reason.CONTAINER_VANISHED)


def broke_off(conn: Connection, kernel: Kernel, failure: Failure, *, by: str, info: Reason) -> bool:
    """A CREATING or RUNNING kernel can only be given up, and its session ends with it."""
    reason = f"{failure.failure_class}: {failure.message}"
    moved = kernels.move(
        conn,
        kernel,
        KernelStatus.ERROR,
        reason=reason,
        by=by,
        info=info,
        failure=failure.to_json(),
    )
    if moved:
        endings.end(
            conn,
            kernel.session_id,
            KernelStatus.ERROR,
            reason=reason,
            by=by,
            info=info,
            culprit=kernel.id,
        )
    return moved
