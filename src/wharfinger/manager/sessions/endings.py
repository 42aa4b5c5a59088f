"""How the kernels of a session end together, or go back to the queue together."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from wharfinger.domain.failures import Failure
from wharfinger.domain.sessions import BOUND, WITH_CONTAINER, Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.kernels import Kernel


def end(
    conn: Connection,
    session_id: str,
    ends_as: KernelStatus,
    *,
    reason: str,
    by: str,
    info: Reason,
    culprit: str | None = None,
    failure: Failure | None = None,
) -> bool:
    """Set every kernel of a session on its way to its end; whether any was not already.

    `ends_as` is CANCELLED, ERROR or TERMINATED. What has no container yet ends at once and frees
    its slots (TERMINATED is CANCELLED for it: it never ran); what may have one is TERMINATING until
    its agent confirms that it has none. `info` and `failure` are the `culprit`'s when one kernel is
    the cause, the others' info then says so; else they are everybody's.
    """
    ended = False
    for kernel in kernels.of_session(conn, session_id, lock=True):
        is_cause = culprit is None or kernel.id == culprit
        ended |= _end(
            conn,
            kernel,
            ends_as,
            reason=reason if is_cause else f"kernel {culprit} of its session ended: {reason}",
            by=by,
            info=info if is_cause else Reason.SESSION_ENDED,
            data=None if is_cause else {"kernelId": culprit},
            failure=failure if is_cause else None,
        )
    return ended


def fail(conn: Connection, kernel: Kernel, failure: Failure, *, by: str) -> bool:
    """End a session since one of its kernels failed for good."""
    return end(
        conn,
        kernel.session_id,
        KernelStatus.ERROR,
        reason=f"{failure.failure_class}: {failure.message}",
        by=by,
        info=Reason.FAILED,
        culprit=kernel.id,
        failure=failure,
    )


def release(
    conn: Connection,
    session_id: str,
    *,
    reason: str,
    by: str,
    info: Reason,
    data: Mapping[str, Any] | None = None,
) -> bool:
    """Send every bound kernel of a session back to the queue, so that it hoards no slots.

    False, and nothing changed, when one of its kernels may have a container.
    """
    found = kernels.of_session(conn, session_id, lock=True)
    if any(kernel.status in WITH_CONTAINER for kernel in found):
        return False
    bound = [kernel for kernel in found if kernel.status in BOUND]
    for kernel in bound:
        kernels.back_to_queue(conn, kernel, reason=reason, by=by, info=info, data=data)
    return bool(bound)


def _end(
    conn: Connection,
    kernel: Kernel,
    ends_as: KernelStatus,
    *,
    reason: str,
    by: str,
    info: Reason,
    data: Mapping[str, Any] | None,
    failure: Failure | None,
) -> bool:
    said: dict[str, Any] = {"info": info, "data": data}
    if failure is not None:
        said["failure"] = failure.to_json()
    never_ran = KernelStatus.CANCELLED if ends_as is KernelStatus.TERMINATED else ends_as
    match kernel.status:
        case KernelStatus.CREATING:
            # nobody cancelled it: its session's main kernel was done before this one was seen to run
            was_done = ends_as is KernelStatus.TERMINATED and info is Reason.SESSION_ENDED
            target = KernelStatus.TERMINATING
            said["ends_as"] = KernelStatus.TERMINATED if was_done else never_ran
        case KernelStatus.RUNNING:
            target, said["ends_as"] = KernelStatus.TERMINATING, KernelStatus.TERMINATED
        case status if status is KernelStatus.PENDING or status in BOUND:
            target = never_ran
        case _:
            return False
    return kernels.move(conn, kernel, target, reason=reason, by=by, **said)
