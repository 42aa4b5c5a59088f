"""Bringing kernels in line with their current attempts, from the attempts' rows alone.

It may be done at any time, by anybody and again: what was followed is not news any more, and an
attempt that is not its kernel's current one says nothing about it.
"""

from collections.abc import Collection

from sqlalchemy import Connection, and_, exists, or_

from wharfinger.contracts.ingest import Report
from wharfinger.contracts.wire import ImageEvidence
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.identity import tag_name
from wharfinger.domain.references import Reference
from wharfinger.domain.sessions import FETCHING
from wharfinger.domain.states import ATTEMPT_TRANSITIONS, AttemptStatus, KernelStatus
from wharfinger.manager.fleet import inventory
from wharfinger.manager.pulls import attempts
from wharfinger.manager.pulls.attempts import Attempt
from wharfinger.manager.sessions import failing, kernels
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables

_STOPPED = Failure(FailureClass.AGENT_LOST, "the agent stopped during the pull")


def follow(conn: Connection, attempt_ids: Collection[str] | None = None, *, by: str) -> bool:
    """Move the kernels whose current attempt (among these, or any for None) has news for them;
    whether any moved."""
    table, tried = tables.kernels, tables.attempts
    has_news = exists().where(
        tried.c.id == table.c.attempt_id,
        or_(
            tried.c.status.in_(ATTEMPT_TRANSITIONS.terminal),
            and_(
                tried.c.status == AttemptStatus.PULLING,
                table.c.status == KernelStatus.PREPARING,
            ),
        ),
    )
    conditions = [table.c.status.in_(FETCHING), has_news]
    if attempt_ids is not None:
        conditions.append(table.c.attempt_id.in_(attempt_ids))
    told = kernels.where(conn, *conditions, lock=True)
    if not told:
        return False
    current = attempts.of_ids(conn, {kernel.attempt_id for kernel in told if kernel.attempt_id})
    # all of them, whatever the first one did
    moved = [_follow(conn, kernel, current[kernel.attempt_id or ""], by=by) for kernel in told]
    return any(moved)


def read_events(conn: Connection, agent_id: str, report: Report) -> bool:
    """Follow the attempts an agent's report has events of (a `fleet.service.ReportReader`)."""
    told = {event.attempt_id for event in report.events}
    return bool(told) and follow(conn, told, by=f"agent {agent_id}")


def _follow(conn: Connection, kernel: Kernel, attempt: Attempt, *, by: str) -> bool:
    match attempt.status:
        case AttemptStatus.PULLING:
            return kernels.move(
                conn, kernel, KernelStatus.PULLING, reason="ImagePullStarted", by=by
            )
        case AttemptStatus.PRESENT if attempt.evidence is not None:
            _note_present(conn, attempt, attempt.evidence)
            return kernels.move(
                conn,
                kernel,
                KernelStatus.PREPARED,
                reason="its image is on the host",
                by=by,
                image_id=attempt.evidence.image_id,
            )
        case AttemptStatus.FAILED if attempt.failure is not None:
            return failing.apply(conn, kernel, attempt.failure, by=by)
        case AttemptStatus.ABORTED:
            return failing.apply(conn, kernel, _STOPPED, by=by)
        case _:
            return False


def _note_present(conn: Connection, attempt: Attempt, evidence: ImageEvidence) -> None:
    """Enter it into the mapping under the name the host has for it: a session moves no tag."""
    reference = Reference.parse(attempt.reference)
    own = [tag for tag in evidence.tags if tag.rpartition(":")[0] == reference.name]
    wanted = tag_name(reference)
    name = wanted if wanted in own else next(iter(own), None)
    inventory.note(
        conn,
        attempt.agent_id,
        name or reference.pinned(attempt.root_digest),
        evidence.image_id,
        attempt.root_digest,
        evidence.size,
    )
