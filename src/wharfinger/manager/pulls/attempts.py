"""The attempts' rows: one try of one agent to make one image present.

An attempt is committed before it is sent, and ends exactly once: whoever comes second with news of
it changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, insert, select, update

from wharfinger.contracts.rpc import PullAnswer, PullOutcome
from wharfinger.contracts.wire import ImageEvidence
from wharfinger.domain.failures import Failure, FailureClass, met_after_resolving
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.domain.states import ATTEMPT_TRANSITIONS, AttemptStatus
from wharfinger.manager.identifiers import new_id
from wharfinger.manager.pulls.evidence import lacking
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.tables import agents, attempts
from wharfinger.manager.storage.transitions import begin, move

OPEN = ATTEMPT_TRANSITIONS.open
MOST_SENDS = 5
"""How often one attempt is sent before its agent counts as not answering."""


class PullPlace(NamedTuple):
    """What the limits count: one pull of one agent, however many attempts share it.

    `pinned` is `host/name@digest`.
    """

    agent_id: str
    registry: str
    pinned: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt, for an item or for a kernel. `accepted`: the agent's present incarnation has it
    in hand; `started`: the engine was asked; one that is `look_only` never pulls."""

    id: str
    item_id: str | None
    kernel_id: str | None
    agent_id: str
    reference: str
    root_digest: str
    status: AttemptStatus
    accepted: bool
    started: bool
    sends: int
    look_only: bool
    evidence: ImageEvidence | None
    failure: Failure | None


def create(
    conn: Connection,
    *,
    item_id: str | None = None,
    kernel_id: str | None = None,
    agent_id: str,
    reference: Reference,
    root_digest: str,
    look_only: bool = False,
    by: str,
) -> str:
    """A new attempt for an item or a kernel, `sent` though not yet sent; its id."""
    attempt_id = new_id()
    conn.execute(
        insert(attempts).values(
            id=attempt_id,
            item_id=item_id,
            kernel_id=kernel_id,
            agent_id=agent_id,
            registry=reference.registry,
            reference=str(reference),
            root_digest=root_digest,
            pinned=reference.pinned(root_digest),
            look_only=look_only,
            status=AttemptStatus.SENT,
            sends=0,
            created_at=now(conn),
        )
    )
    begin(conn, ATTEMPT_TRANSITIONS, attempt_id, reason="ordered", by=by)
    return attempt_id


def in_flight(conn: Connection) -> set[PullPlace]:
    """The places taken by open attempts."""
    rows = conn.execute(
        select(attempts.c.agent_id, attempts.c.registry, attempts.c.pinned)
        .where(attempts.c.status.in_(OPEN), attempts.c.look_only.is_(False))
        .distinct()
    )
    return {PullPlace(*row) for row in rows}


def of_ids(conn: Connection, attempt_ids: Iterable[str]) -> dict[str, Attempt]:
    """These attempts, by id."""
    rows = conn.execute(select(attempts).where(attempts.c.id.in_(attempt_ids)))
    return {row.id: _attempt(row) for row in rows}


def of_items(conn: Connection, item_ids: Sequence[str]) -> dict[str, Attempt]:
    """The newest attempt of each of these items."""
    rows = conn.execute(
        select(attempts)
        .where(attempts.c.item_id.in_(item_ids))
        .order_by(attempts.c.created_at, attempts.c.id)
    )
    return {row.item_id: _attempt(row) for row in rows}


def open_of_kernels(conn: Connection) -> list[Attempt]:
    """The open attempts of kernels, by agent and age."""
    rows = conn.execute(
        select(attempts)
        .where(attempts.c.status.in_(OPEN), attempts.c.kernel_id.is_not(None))
        .order_by(attempts.c.agent_id, attempts.c.created_at, attempts.c.id)
    )
    return [_attempt(row) for row in rows]


def of_agent(conn: Connection, agent_id: str, attempt_ids: Iterable[str]) -> set[str]:
    """Which of these attempts are this agent's."""
    return set(
        conn.execute(
            select(attempts.c.id).where(
                attempts.c.agent_id == agent_id, attempts.c.id.in_(attempt_ids)
            )
        ).scalars()
    )


def note_sending(conn: Connection, attempt_ids: Sequence[str], *, by: str) -> list[str]:
    """Count one more send of each; those still worth sending. Too often sent ends as agent-lost."""
    worth = []
    for row in conn.execute(
        select(attempts.c.id, attempts.c.sends, attempts.c.agent_id)
        .where(attempts.c.id.in_(attempt_ids), attempts.c.status.in_(OPEN))
        .order_by(attempts.c.id)
    ).all():
        if row.sends < MOST_SENDS:
            conn.execute(
                update(attempts).where(attempts.c.id == row.id).values(sends=row.sends + 1)
            )
            worth.append(row.id)
        else:
            lost = f"agent {row.agent_id} did not keep the order after {row.sends} calls"
            fail(conn, row.id, Failure(FailureClass.AGENT_LOST, lost), by=by)
    return worth


def note_accepted(conn: Connection, attempt_id: str, incarnation: str) -> None:
    """The agent has it in hand; the reports it began before say nothing about it."""
    begun = (
        select(agents.c.reports_begun).where(agents.c.id == attempts.c.agent_id).scalar_subquery()
    )
    conn.execute(
        update(attempts)
        .where(attempts.c.id == attempt_id)
        .values(incarnation=incarnation, accepted_begun=begun)
    )


def note_missing(
    conn: Connection, agent_id: str, incarnation: str, begun: int, in_hand: Iterable[str]
) -> bool:
    """Mark what the agent should have in hand and has not, so that it is sent again.

    Missing are open attempts another incarnation accepted, and those that two reports begun after
    their acceptance did not show. True when there are any.
    """
    shown = set(in_hand)
    missing = [
        row.id
        for row in conn.execute(
            select(attempts.c.id, attempts.c.incarnation, attempts.c.accepted_begun).where(
                attempts.c.agent_id == agent_id,
                attempts.c.status.in_(OPEN),
                attempts.c.accepted_begun.is_not(None),
            )
        )
        if row.incarnation != incarnation
        or (row.id not in shown and begun >= row.accepted_begun + 2)
    ]
    if missing:
        conn.execute(update(attempts).where(attempts.c.id.in_(missing)).values(accepted_begun=None))
    return bool(missing)


def not_current(conn: Connection, agent_id: str, attempt_ids: Sequence[str]) -> list[str]:
    """Which of these an agent works on for nobody: ended here, not its own, or never heard of."""
    current = set(
        conn.execute(
            select(attempts.c.id).where(
                attempts.c.agent_id == agent_id,
                attempts.c.id.in_(attempt_ids),
                attempts.c.status.in_(OPEN),
            )
        ).scalars()
    )
    return [attempt_id for attempt_id in attempt_ids if attempt_id not in current]


def start(conn: Connection, attempt_id: str, *, by: str) -> bool:
    """The engine was asked."""
    return move(
        conn,
        attempts,
        ATTEMPT_TRANSITIONS,
        attempt_id,
        (AttemptStatus.SENT,),
        AttemptStatus.PULLING,
        reason="ImagePullStarted",
        by=by,
        started_at=now(conn),
    )


def finish(conn: Connection, attempt_id: str, evidence: ImageEvidence, *, by: str) -> bool:
    """The agent says it is there. Its evidence is judged here: what it lacks ends it as failed."""
    row = conn.execute(
        select(attempts, agents.c.os, agents.c.architecture, agents.c.variant)
        .join(agents, agents.c.id == attempts.c.agent_id)
        .where(attempts.c.id == attempt_id)
    ).one_or_none()
    if row is None:
        return False
    lacks = lacking(
        evidence,
        Reference.parse(row.reference),
        row.root_digest,
        Platform.parse(row.os, row.architecture, row.variant),
        tag_matters=row.kernel_id is None,
    )
    if lacks is not None:
        return fail(conn, attempt_id, lacks, by=by)
    return _end(
        conn,
        attempt_id,
        AttemptStatus.PRESENT,
        "seen on the host",
        by,
        evidence=evidence.to_wire(),
    )


def fail(conn: Connection, attempt_id: str, failure: Failure, *, by: str) -> bool:
    """It ended without the image; class `cancelled` is an abort."""
    failure = met_after_resolving(failure)
    if failure.failure_class is FailureClass.CANCELLED:
        return _end(conn, attempt_id, AttemptStatus.ABORTED, failure.message, by)
    reason = f"{failure.failure_class}: {failure.message}"
    stored = {**failure.to_json(), "retryAfter": failure.retry_after}
    return _end(conn, attempt_id, AttemptStatus.FAILED, reason, by, failure=stored)


def abort(conn: Connection, attempt_id: str, *, by: str) -> bool:
    """Nobody waits for it any more, and the agent confirmed that it stopped."""
    return _end(conn, attempt_id, AttemptStatus.ABORTED, "stopped", by)


def apply_answer(conn: Connection, answer: PullAnswer, incarnation: str | None, *, by: str) -> None:
    """What a call answered of one attempt; `incarnation` accepted it, if the call was an order."""
    match answer.outcome:
        case PullOutcome.PULLING:
            if incarnation is not None:
                note_accepted(conn, answer.attempt_id, incarnation)
        case PullOutcome.PRESENT if answer.evidence is not None:
            finish(conn, answer.attempt_id, answer.evidence, by=by)
        case PullOutcome.ABORTED:
            abort(conn, answer.attempt_id, by=by)
        case PullOutcome.ABSENT:
            fail(conn, answer.attempt_id, _GONE, by=by)
        case _:
            failure = answer.failure.failure() if answer.failure else _UNEXPLAINED
            fail(conn, answer.attempt_id, failure, by=by)


def apply_answers(
    conn: Connection,
    agent_id: str,
    answers: Iterable[PullAnswer],
    incarnation: str | None,
    *,
    by: str,
) -> None:
    """Apply what an agent answered of its own attempts; `incarnation` accepted them, if they were
    ordered."""
    answers = tuple(answers)
    own = of_agent(conn, agent_id, {answer.attempt_id for answer in answers})
    for answer in answers:
        if answer.attempt_id in own:
            apply_answer(conn, answer, incarnation, by=by)


def fail_open_of(conn: Connection, agent_id: str, failure: Failure, *, by: str) -> None:
    """End every open attempt of an agent that cannot end them itself."""
    for attempt_id in (
        conn.execute(
            select(attempts.c.id)
            .where(attempts.c.agent_id == agent_id, attempts.c.status.in_(OPEN))
            .order_by(attempts.c.id)
        )
        .scalars()
        .all()
    ):
        fail(conn, attempt_id, failure, by=by)


_GONE = Failure(FailureClass.ENGINE_ERROR, "the image is no longer on this host")
_UNEXPLAINED = Failure(FailureClass.INTERNAL, "the agent answered without saying what it found")


def _end(
    conn: Connection,
    attempt_id: str,
    status: AttemptStatus,
    reason: str,
    by: str,
    **values: Mapping[str, Any],
) -> bool:
    return move(
        conn,
        attempts,
        ATTEMPT_TRANSITIONS,
        attempt_id,
        OPEN,
        status,
        reason=reason,
        by=by,
        ended_at=now(conn),
        **values,
    )


def _attempt(row: Row[Any]) -> Attempt:
    failure = row.failure and Failure(
        FailureClass(row.failure["class"]),
        row.failure["message"],
        row.failure["detail"],
        row.failure["retryAfter"],
    )
    return Attempt(
        id=row.id,
        item_id=row.item_id,
        kernel_id=row.kernel_id,
        agent_id=row.agent_id,
        reference=row.reference,
        root_digest=row.root_digest,
        status=AttemptStatus(row.status),
        accepted=row.accepted_begun is not None,
        started=row.started_at is not None,
        sends=row.sends,
        look_only=row.look_only,
        evidence=ImageEvidence.model_validate(row.evidence) if row.evidence else None,
        failure=failure,
    )
