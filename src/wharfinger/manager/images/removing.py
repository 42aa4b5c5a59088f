"""The transactions of an unload: what is to be surveyed, what may go, and what became of it.

A survey is old as soon as it is answered. What kernels and other tasks did meanwhile is looked at
in the deciding transaction, under the agent's lock, which whoever binds a kernel takes as well. What
the engine did is the agent's to see when it removes: the order names the image.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from wharfinger.contracts.rpc import RemovalAnswer, RemovalOutcome, RemovalSurvey
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.progress import Phase
from wharfinger.domain.references import Reference
from wharfinger.domain.states import AgentStatus, ItemStatus
from wharfinger.manager.background.holding import hold
from wharfinger.manager.fleet import agents, inventory
from wharfinger.manager.gate import kernels, preparations
from wharfinger.manager.gate.protection import Protection
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import ItemRow
from wharfinger.manager.images.surveyed import first_keys, keys, obstacle

_UNEXPLAINED = Failure(FailureClass.INTERNAL, "the agent answered without saying what it found")
_UNANSWERED = Failure(FailureClass.INTERNAL, "the agent left this removal out of its answer")
_CHANGED = Failure(
    FailureClass.ENGINE_ERROR, "the reference came to name another image while it was looked at"
)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a round's transaction left: all items; by agent those to be surveyed, and those being
    removed, with the image each names."""

    items: Sequence[ItemRow]
    to_survey: Mapping[str, Sequence[ItemRow]]
    to_remove: Mapping[str, Sequence[tuple[ItemRow, str]]]


def removal_id(item: ItemRow) -> str:
    """An id per try: asking again meets the same removal, a new try a new one."""
    return f"{item.id}-{item.attempts}"


def advance(
    conn: Connection,
    task_id: str,
    epoch: int,
    *,
    cancelling: bool,
    known: Mapping[str, ImageKeys],
    by: str,
) -> Standing:
    """One round: cancel what waits, or find out which of it is due.

    `known` are the images of items that were surveyed and then had to wait: they are surveyed anew
    once no other task prepares the image there.
    """
    hold(conn, task_id, epoch)
    waiting = [i for i in rows.of_task(conn, task_id) if i.status is ItemStatus.QUEUED]
    to_survey: dict[str, list[ItemRow]] = defaultdict(list)
    if cancelling:
        for item in waiting:
            rows.cancel(conn, item.id, by=by)
    else:
        due = [item for item in waiting if item.due]
        up = {agent.id for agent in agents.present(conn) if agent.status is AgentStatus.UP}
        under_way = preparations.on_agents(conn, {item.agent_id for item in due})
        for item in due:
            image = known.get(item.id) or first_keys(Reference.parse(item.reference))
            if item.agent_id not in up:
                away = Failure(
                    FailureClass.AGENT_LOST,
                    f"agent {item.agent_id} is away: look at its process and its network",
                )
                rows.fail_or_retry(conn, item, away, tries=_tries(item), by=by)
            elif under_way.against(item.agent_id, image) is None:
                to_survey[item.agent_id].append(item)
    every = rows.of_task(conn, task_id)
    return Standing(every, to_survey, _to_remove(conn, task_id, every))


def decide(
    conn: Connection,
    task_id: str,
    epoch: int,
    agent_id: str,
    batch: Sequence[ItemRow],
    surveys: Sequence[RemovalSurvey],
    *,
    protected: Sequence[str],
    by: str,
) -> dict[str, ImageKeys]:
    """Begin what may be removed, end what may not; by item the images that another task prepares
    there, which go on waiting. `protected` are the settings' patterns."""
    hold(conn, task_id, epoch)
    preparations.lock(conn, (agent_id,))
    protection = Protection(conn, protected)
    there = kernels.bound(conn, (agent_id,))
    by_id = {survey.removal_id: survey for survey in surveys}
    held_back: dict[str, ImageKeys] = {}
    for item in rows.unchanged(conn, batch):
        survey = by_id.get(removal_id(item))
        if survey is None:
            rows.fail_or_retry(conn, item, _UNANSWERED, tries=_tries(item), by=by)
        elif survey.failure is not None:
            rows.fail_or_retry(conn, item, survey.failure.failure(), tries=_tries(item), by=by)
        else:
            reference = Reference.parse(item.reference)
            image = keys(reference, survey)
            bound = [kernel for kernel in there if kernel.keys.meets(image)]
            if failure := obstacle(reference, survey, bound, protection):
                rows.fail(conn, item.id, failure, by=by, attempts=_tries(item))
            elif survey.image_id is None:
                _skip(conn, item, by=by)
            elif not rows.run(
                conn, item.id, PreparationKind.UNLOAD, image, phase=Phase.VERIFYING, by=by
            ):
                held_back[item.id] = image
    return held_back


def apply(
    conn: Connection,
    task_id: str,
    epoch: int,
    batch: Sequence[ItemRow],
    answers: Sequence[RemovalAnswer],
    *,
    by: str,
) -> None:
    """What an agent answered of its removals."""
    hold(conn, task_id, epoch)
    by_id = {answer.removal_id: answer for answer in answers}
    for item in rows.unchanged(conn, batch):
        answer = by_id.get(removal_id(item))
        if answer is None:
            rows.fail_or_retry(conn, item, _UNANSWERED, tries=_tries(item), by=by)
            continue
        match answer.outcome:
            case RemovalOutcome.REMOVED | RemovalOutcome.ABSENT:
                # absent by now, it was there when it was surveyed: an agent that was killed after
                # the removal does not know of it
                inventory.forget(conn, item.agent_id, [item.reference])
                rows.done(conn, item, kept_by=answer.kept_by, by=by)
            case RemovalOutcome.CHANGED:
                rows.fail_or_retry(conn, item, _CHANGED, tries=_tries(item), by=by)
            case RemovalOutcome.FAILED:
                failure = answer.failure.failure() if answer.failure else _UNEXPLAINED
                rows.fail_or_retry(conn, item, failure, tries=_tries(item), by=by)
            case RemovalOutcome.RUNNING:
                pass  # asked again in the next round


def fail_all(
    conn: Connection,
    task_id: str,
    epoch: int,
    batch: Sequence[ItemRow],
    failure: Failure,
    *,
    by: str,
) -> None:
    """Their agent could not be asked."""
    hold(conn, task_id, epoch)
    for item in rows.unchanged(conn, batch):
        rows.fail_or_retry(conn, item, failure, tries=_tries(item), by=by)


def _to_remove(
    conn: Connection, task_id: str, every: Sequence[ItemRow]
) -> Mapping[str, Sequence[tuple[ItemRow, str]]]:
    decided = preparations.of_task(conn, task_id)
    by_agent: dict[str, list[tuple[ItemRow, str]]] = defaultdict(list)
    for item in every:
        if item.status is ItemStatus.RUNNING:
            by_agent[item.agent_id].append((item, decided[item.id].image_id or ""))
    return by_agent


def _skip(conn: Connection, item: ItemRow, *, by: str) -> None:
    inventory.forget(conn, item.agent_id, [item.reference])
    rows.skip(conn, item, "not there", by=by)


def _tries(item: ItemRow) -> int:
    """Tries so far, with the one that just failed: a queued item's has not been counted."""
    return item.attempts + (item.status is ItemStatus.QUEUED)
