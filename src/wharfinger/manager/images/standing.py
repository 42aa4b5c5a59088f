"""The transactions of a preload: what one round settles, cancels and admits."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from sqlalchemy import Connection

from wharfinger.contracts.rpc import PullAnswer, PullOutcome
from wharfinger.domain.failures import Failure, FailureClass, Scope
from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.identity import tag_name
from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Phase
from wharfinger.domain.references import Reference
from wharfinger.domain.states import AgentStatus, AttemptStatus, ItemStatus
from wharfinger.manager.background.holding import hold
from wharfinger.manager.fleet import agents, inventory
from wharfinger.manager.fleet.views import AgentView
from wharfinger.manager.gate import preparations
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import ItemRow
from wharfinger.manager.pulls import attempts
from wharfinger.manager.pulls.attempts import Attempt, PullPlace
from wharfinger.manager.pulls.evidence import lacking
from wharfinger.manager.pulls.limits import Limits, Room


@dataclass(frozen=True, slots=True)
class Standing:
    """What a round's transaction left: all items, and the open attempts of running ones.

    `unchecked` are to be looked for on their hosts first. `held_back` wait for another's
    preparation of their image there, and are to be looked for (again) when that is over.
    """

    items: Sequence[ItemRow]
    open: Sequence[tuple[ItemRow, Attempt]]
    platforms: Mapping[str, Platform]
    unchecked: Mapping[str, Sequence[ItemRow]] = field(default_factory=dict)
    held_back: frozenset[str] = frozenset()


def advance(
    conn: Connection,
    task_id: str,
    epoch: int,
    *,
    cancelling: bool,
    checked: frozenset[str],
    limits: Limits,
    by: str,
) -> Standing:
    """One round: settle what ended, cancel or admit what waits; what stands then.

    `checked` are the items that were looked for on their hosts.
    """
    hold(conn, task_id, epoch)
    every = rows.of_task(conn, task_id)
    running = [item for item in every if item.status is ItemStatus.RUNNING]
    newest = attempts.of_items(conn, [item.id for item in running])
    for item in running:
        _settle(conn, item, newest[item.id], cancelling=cancelling, by=by)
    waiting = [item for item in every if item.status is ItemStatus.QUEUED]
    unchecked: dict[str, list[ItemRow]] = {}
    held_back: set[str] = set()
    if cancelling:
        for item in waiting:
            rows.cancel(conn, item.id, by=by)
    else:
        room = limits.room(conn)
        under_way = preparations.on_agents(conn, {item.agent_id for item in waiting})
        for agent_id, group in groupby(waiting, key=lambda item: item.agent_id):
            queue = list(group)
            held_back |= {i.id for i in queue if under_way.against(agent_id, _keys(i))}
            free = [item for item in queue if item.id not in held_back]
            due = [item for item in free if item.due and item.id in checked]
            held_back |= _admit(conn, agent_id, due, room, by=by)
            if unseen := [item for item in free if item.id not in checked]:
                unchecked[agent_id] = unseen
    return _standing(conn, task_id, unchecked, held_back)


def _standing(
    conn: Connection,
    task_id: str,
    unchecked: Mapping[str, Sequence[ItemRow]],
    held_back: Collection[str],
) -> Standing:
    every = rows.of_task(conn, task_id)
    running = {item.id: item for item in every if item.status is ItemStatus.RUNNING}
    newest = attempts.of_items(conn, list(running))
    in_flight = [
        (running[item_id], attempt)
        for item_id, attempt in newest.items()
        if attempt.status in attempts.OPEN
    ]
    platforms = agents.platforms(conn, {item.agent_id for item in running.values()})
    return Standing(
        items=every,
        open=sorted(
            (pair for pair in in_flight if pair[0].agent_id in platforms),
            key=lambda pair: pair[0].agent_id,
        ),
        platforms=platforms,
        unchecked=unchecked,
        held_back=frozenset(held_back),
    )


def _settle(
    conn: Connection, item: ItemRow, attempt: Attempt, *, cancelling: bool, by: str
) -> None:
    """Give a running item the end, or the next try, that its newest attempt calls for."""
    match attempt.status:
        case AttemptStatus.PRESENT if attempt.evidence is not None:
            _note_present(conn, item, attempt.evidence.image_id, attempt.evidence.size)
            at_once = not (attempt.accepted or attempt.started)
            if at_once and attempt.sends == 1 and item.attempts == 1:
                rows.skip(conn, item, "already present", by=by)
            else:
                rows.done(conn, item, by=by)
        case AttemptStatus.ABORTED if cancelling:
            rows.cancel(conn, item.id, by=by)
        case AttemptStatus.ABORTED:
            stopped = Failure(FailureClass.AGENT_LOST, "the agent stopped during the pull")
            rows.fail_or_retry(conn, item, stopped, tries=item.attempts, by=by)
        case AttemptStatus.FAILED if attempt.failure is not None:
            if cancelling and attempt.failure.scope is Scope.TRANSIENT:
                rows.cancel(conn, item.id, by=by)
            else:
                rows.fail_or_retry(conn, item, attempt.failure, tries=item.attempts, by=by)
        case _:
            pass  # still in flight


def _admit(
    conn: Connection, agent_id: str, due: Sequence[ItemRow], room: Room, *, by: str
) -> set[str]:
    """Make attempts for the items whose turn has come, as far as there is room; those that another
    task's preparation holds back after all.

    An agent that has none is not even looked at: in a large fleet that is nearly every one.
    """
    references = {item.id: Reference.parse(item.reference) for item in due}
    places = {item.id: _place(item, references[item.id]) for item in due}
    held_back = set[str]()
    due = [item for item in due if room.has(places[item.id])]
    if not due:
        return held_back
    agent = _lock_agent(conn, agent_id)
    for item in due:
        if agent is None or agent.status is AgentStatus.RETIRED:
            retired = Failure(FailureClass.AGENT_LOST, f"agent {agent_id} was retired by an admin")
            rows.fail(conn, item.id, retired, by=by)
        elif agent.status is not AgentStatus.UP:
            away = Failure(
                FailureClass.AGENT_LOST,
                f"agent {agent_id} is {agent.status}: look at its process and its network",
            )
            rows.fail_or_retry(conn, item, away, tries=item.attempts + 1, by=by)
        elif not room.has(places[item.id]):
            continue
        elif rows.run(
            conn, item.id, PreparationKind.PRELOAD, _keys(item), phase=Phase.WAITING, by=by
        ):
            room.take(places[item.id])
            attempts.create(
                conn,
                item_id=item.id,
                agent_id=agent_id,
                reference=references[item.id],
                root_digest=item.root_digest or "",
                by=by,
            )
        else:
            held_back.add(item.id)
    return held_back


def skip_present(
    conn: Connection,
    task_id: str,
    epoch: int,
    agent_id: str,
    waiting: Sequence[ItemRow],
    answers: Sequence[PullAnswer],
    *,
    by: str,
) -> None:
    """Skip the items whose check showed the image there as it should be."""
    hold(conn, task_id, epoch)
    platform = agents.one(conn, agent_id).platform
    by_id = {item.id: item for item in waiting}
    for answer in answers:
        item, evidence = by_id.get(answer.attempt_id), answer.evidence
        if item is None or evidence is None or answer.outcome is not PullOutcome.PRESENT:
            continue
        reference = Reference.parse(item.reference)
        lacks = lacking(evidence, reference, item.root_digest or "", platform, tag_matters=True)
        if lacks is None and rows.skip(conn, item, "already present", by=by):
            _note_present(conn, item, evidence.image_id, evidence.size)


def note_sending(
    conn: Connection, task_id: str, epoch: int, attempt_ids: Sequence[str], *, by: str
) -> list[str]:
    """`attempts.note_sending`, by who still runs the task."""
    hold(conn, task_id, epoch)
    return attempts.note_sending(conn, attempt_ids, by=by)


def _place(item: ItemRow, reference: Reference) -> PullPlace:
    pinned = reference.pinned(item.root_digest or "")
    return PullPlace(item.agent_id, reference.registry, pinned)


def _note_present(conn: Connection, item: ItemRow, image_id: str, size: int) -> None:
    reference = Reference.parse(item.reference)
    digest = item.root_digest or ""
    name = tag_name(reference) or reference.pinned(digest)
    inventory.note(conn, item.agent_id, name, image_id, digest, size)


def _keys(item: ItemRow) -> ImageKeys:
    return ImageKeys.of(item.reference, item.root_digest)


def _lock_agent(conn: Connection, agent_id: str) -> AgentView | None:
    return agents.one(conn, agent_id) if preparations.lock(conn, (agent_id,)) else None
