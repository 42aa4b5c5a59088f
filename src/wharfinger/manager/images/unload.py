"""Unload: a reference is taken away from every targeted agent where nothing uses it.

The registry is never asked; each agent knows what the reference means there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import Connection

from wharfinger.contracts.rpc import RemovalAnswer, RemovalOrder, RemovalOutcome
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.progress import Phase
from wharfinger.domain.states import AgentStatus, ItemStatus
from wharfinger.manager.background.holding import hold
from wharfinger.manager.background.port import TaskResult, TaskRun
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.errands import Errands
from wharfinger.manager.fleet import agents, inventory
from wharfinger.manager.fleet.calls import AgentCalls, AgentUnreachable
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.board import Board
from wharfinger.manager.images.items import ItemRow
from wharfinger.manager.images.rounds import Rounds
from wharfinger.manager.storage.port import Storage

_UNEXPLAINED = Failure(FailureClass.INTERNAL, "the agent answered without saying what it found")
_UNANSWERED = Failure(FailureClass.INTERNAL, "the agent left this removal out of its answer")


@dataclass(frozen=True, slots=True)
class Unload:
    """The named function of unloads. Arguments: none; the items say it all."""

    storage: Storage
    bus: Bus
    calls: AgentCalls
    by: str
    """Who moves the items, for the transition log."""

    async def __call__(self, run: TaskRun) -> TaskResult:
        """Drive the items to their ends."""
        return await _Run(self, run).drive()


class _Run:
    """One run of one unload, by one manager."""

    def __init__(self, unload: Unload, run: TaskRun) -> None:
        self._our = unload
        self._run = run
        self._rounds = Rounds(run, unload.storage, unload.bus, Board(count_bytes=False))

    async def drive(self) -> TaskResult:
        return rows.result(await self._rounds.drive(self._round), "unload")

    async def _round(self, errands: Errands) -> Sequence[ItemRow]:
        every = await self._our.storage.write(
            _advance,
            self._run.task_id,
            self._run.epoch,
            cancelling=self._run.cancel_requested,
            by=self._our.by,
        )
        running = [item for item in every if item.status is ItemStatus.RUNNING]
        for agent_id, group in groupby(running, key=lambda item: item.agent_id):
            errands.start(f"remove {agent_id}", self._remove, agent_id, list(group))
        return every

    async def _remove(self, agent_id: str, batch: Sequence[ItemRow]) -> None:
        """Have one agent remove a batch, and apply what it answers."""
        orders = [
            RemovalOrder(removal_id=_removal_id(item), reference=item.reference) for item in batch
        ]
        task = (self._run.task_id, self._run.epoch)
        try:
            answers = await self._our.calls.remove_images(agent_id, orders)
        except AgentUnreachable as error:
            silent = Failure(
                FailureClass.AGENT_LOST,
                f"agent {agent_id} does not answer: look at its process and its network",
                error.message,
            )
            await self._our.storage.write(_fail_all, *task, batch, silent, by=self._our.by)
        else:
            await self._our.storage.write(_apply, *task, batch, answers, by=self._our.by)
        self._rounds.ring()


def _removal_id(item: ItemRow) -> str:
    """An id per try: asking again meets the same removal, a new try a new one."""
    return f"{item.id}-{item.attempts}"


def _advance(
    conn: Connection, task_id: str, epoch: int, *, cancelling: bool, by: str
) -> Sequence[ItemRow]:
    """One round: cancel what waits, or begin what is due; all items then."""
    hold(conn, task_id, epoch)
    up = {agent.id for agent in agents.present(conn) if agent.status is AgentStatus.UP}
    for item in rows.of_task(conn, task_id):
        if item.status is not ItemStatus.QUEUED:
            continue
        if cancelling:
            rows.cancel(conn, item.id, by=by)
        elif item.due and item.agent_id in up:
            rows.run(conn, item.id, phase=Phase.VERIFYING, by=by)
        elif item.due:
            away = Failure(
                FailureClass.AGENT_LOST,
                f"agent {item.agent_id} is away: look at its process and its network",
            )
            rows.fail_or_retry(conn, item, away, tries=item.attempts + 1, by=by)
    return rows.of_task(conn, task_id)


def _apply(
    conn: Connection,
    task_id: str,
    epoch: int,
    batch: Sequence[ItemRow],
    answers: Sequence[RemovalAnswer],
    *,
    by: str,
) -> None:
    hold(conn, task_id, epoch)
    by_id = {answer.removal_id: answer for answer in answers}
    for item in rows.still_running(conn, batch):
        answer = by_id.get(_removal_id(item))
        if answer is None:
            rows.fail_or_retry(conn, item, _UNANSWERED, tries=item.attempts, by=by)
            continue
        match answer.outcome:
            case RemovalOutcome.REMOVED:
                inventory.forget(conn, item.agent_id, [item.reference])
                rows.done(conn, item, kept_by=answer.kept_by, by=by)
            case RemovalOutcome.ABSENT:
                inventory.forget(conn, item.agent_id, [item.reference])
                rows.skip(conn, item, "not there", by=by)
            case RemovalOutcome.FAILED:
                failure = answer.failure.failure() if answer.failure else _UNEXPLAINED
                rows.fail_or_retry(conn, item, failure, tries=item.attempts, by=by)
            case RemovalOutcome.RUNNING:
                pass  # asked again in the next round


def _fail_all(
    conn: Connection,
    task_id: str,
    epoch: int,
    batch: Sequence[ItemRow],
    failure: Failure,
    *,
    by: str,
) -> None:
    hold(conn, task_id, epoch)
    for item in rows.still_running(conn, batch):
        rows.fail_or_retry(conn, item, failure, tries=item.attempts, by=by)
