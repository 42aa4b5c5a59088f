"""Unload: a reference is taken away from every targeted agent where nothing uses it.

The registry is never asked; each agent knows what the reference means there. An item is first
surveyed by its agent. What the survey and the manager know together then decides whether it may go,
and it goes as the very image that was surveyed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from wharfinger.contracts.rpc import RemovalOrder
from wharfinger.domain.gate import ImageKeys
from wharfinger.domain.states import AgentStatus
from wharfinger.manager.background.port import TaskResult, TaskRun
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.errands import Errands
from wharfinger.manager.fleet import agents
from wharfinger.manager.fleet.calls import AgentCalls, AgentUnreachable
from wharfinger.manager.images import items as rows
from wharfinger.manager.images import removing
from wharfinger.manager.images.board import Board
from wharfinger.manager.images.items import ItemRow
from wharfinger.manager.images.obstacles import silent
from wharfinger.manager.images.removing import removal_id
from wharfinger.manager.images.rounds import Rounds
from wharfinger.manager.storage.port import Storage

_MOST_CALLS: Final = 5
"""About one removal, in a row and not answered, before its agent counts as lost to it."""


@dataclass(frozen=True, slots=True)
class Unload:
    """The named function of unloads. Arguments: none; the items say it all."""

    storage: Storage
    bus: Bus
    calls: AgentCalls
    by: str
    """Who moves the items, for the transition log."""
    protected_references: Sequence[str] = ()
    """Shell patterns of canonical references that stay where they are."""

    async def __call__(self, run: TaskRun) -> TaskResult:
        """Drive the items to their ends."""
        return await _Run(self, run).drive()


class _Run:
    """One run of one unload, by one manager."""

    def __init__(self, unload: Unload, run: TaskRun) -> None:
        self._our = unload
        self._run = run
        self._task = (run.task_id, run.epoch)
        self._rounds = Rounds(run, unload.storage, unload.bus, Board(count_bytes=False))
        self._held_back: dict[str, ImageKeys] = {}
        self._unanswered = Counter[str]()
        self._settled: set[str] = set()

    async def drive(self) -> TaskResult:
        return rows.result(await self._rounds.drive(self._round), "unload")

    async def _round(self, errands: Errands) -> Sequence[ItemRow]:
        self._settled.clear()
        standing = await self._our.storage.write(
            removing.advance,
            *self._task,
            cancelling=self._run.cancel_requested,
            known=dict(self._held_back),
            by=self._our.by,
        )
        # of agents whose answers came meanwhile it shows what was: their turn is the next round
        for agent_id in standing.to_survey.keys() - self._settled:
            waiting = standing.to_survey[agent_id]
            errands.start(f"survey {agent_id}", self._survey, agent_id, waiting)
        for agent_id in standing.to_remove.keys() - self._settled:
            decided = standing.to_remove[agent_id]
            errands.start(f"remove {agent_id}", self._remove, agent_id, decided)
        return standing.items

    async def _survey(self, agent_id: str, waiting: Sequence[ItemRow]) -> None:
        """Have one agent look into a batch, and decide."""
        orders = [
            RemovalOrder(removal_id=removal_id(item), reference=item.reference) for item in waiting
        ]
        try:
            surveys = await self._our.calls.survey_removals(agent_id, orders)
        except AgentUnreachable as error:
            await self._fail_all(waiting, agent_id, error)
        else:
            if not self._run.cancel_requested:
                self._held_back |= await self._our.storage.write(
                    removing.decide,
                    *self._task,
                    agent_id,
                    waiting,
                    surveys,
                    protected=self._our.protected_references,
                    by=self._our.by,
                )
        self._settle(agent_id)

    async def _remove(self, agent_id: str, decided: Sequence[tuple[ItemRow, str]]) -> None:
        """Have one agent remove a batch, and apply what it answers.

        One that does not answer may be removing all the same. So it is asked again about the same
        removals while it reports, and what it may be removing stays closed to sessions meanwhile.
        """
        orders = [
            RemovalOrder(removal_id=removal_id(item), reference=item.reference, image_id=image_id)
            for item, image_id in decided
        ]
        batch = [item for item, _ in decided]
        try:
            answers = await self._our.calls.remove_images(agent_id, orders)
        except AgentUnreachable as error:
            self._unanswered[agent_id] += 1
            reports = await self._our.storage.read(_reports, agent_id)
            if reports and self._unanswered[agent_id] < _MOST_CALLS:
                return  # the next round asks again
            await self._fail_all(batch, agent_id, error)
        else:
            await self._our.storage.write(
                removing.apply, *self._task, batch, answers, by=self._our.by
            )
        self._unanswered.pop(agent_id, None)
        self._settle(agent_id)

    def _settle(self, agent_id: str) -> None:
        self._settled.add(agent_id)
        self._rounds.ring()

    async def _fail_all(
        self, batch: Sequence[ItemRow], agent_id: str, error: AgentUnreachable
    ) -> None:
        await self._our.storage.write(
            removing.fail_all,
            *self._task,
            batch,
            silent(agent_id, error.message),
            by=self._our.by,
        )


def _reports(conn: Connection, agent_id: str) -> bool:
    return agents.one(conn, agent_id).status is AgentStatus.UP
