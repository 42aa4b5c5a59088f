"""Preload: every targeted agent comes to hold an image at the digest resolved once.

An item waits while another task prepares the image on its host. Then it is looked for there
(`skipped` when it is there), waits for its place among the pulls in flight, and is pulled by
attempts until one ends with the image seen there, the failure is final, or the tries are used up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import structlog

from wharfinger.contracts.rpc import PullOrder, PullPolicy
from wharfinger.domain.errors import UnknownRegistry
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.platforms import Platform
from wharfinger.manager.background.port import TaskResult, TaskRun
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.vault import VaultError
from wharfinger.manager.errands import Errands
from wharfinger.manager.fleet.calls import AgentCalls, AgentUnreachable
from wharfinger.manager.fleet.pause import Pause
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.board import Board
from wharfinger.manager.images.items import ItemRow
from wharfinger.manager.images.rounds import Rounds
from wharfinger.manager.images.standing import (
    advance,
    note_sending,
    skip_present,
)
from wharfinger.manager.pulls import attempts, orders
from wharfinger.manager.pulls.attempts import Attempt
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.images import ResolvedImage

log = structlog.get_logger()

_CHECK_SECONDS = 10.0
"""How long a host may take to say what it has, before it is simply asked to pull."""


@dataclass(frozen=True, slots=True)
class Preload:
    """The named function of preloads. Arguments: `{"images": [ResolvedImage as JSON]}`."""

    storage: Storage
    bus: Bus
    calls: AgentCalls
    registries: Registries
    limits: Limits
    by: str
    """Who moves the items, for the transition log."""

    async def __call__(self, run: TaskRun) -> TaskResult:
        """Drive the items to their ends."""
        return await _Run(self, run).drive()


class _Run:
    """One run of one preload, by one manager."""

    def __init__(self, preload: Preload, run: TaskRun) -> None:
        self._our = preload
        self._run = run
        resolved = [ResolvedImage.from_json(image) for image in run.arguments["images"]]
        self._images = {str(image.reference): image for image in resolved}
        self._board = Board(count_bytes=True)
        self._rounds = Rounds(run, preload.storage, preload.bus, self._board)
        self._pause = Pause()
        self._checked: set[str] = set()

    async def drive(self) -> TaskResult:
        return rows.result(await self._rounds.drive(self._round), "preload")

    async def _round(self, errands: Errands) -> Sequence[ItemRow]:
        cancelling = self._run.cancel_requested
        standing = await self._our.storage.write(
            advance,
            self._run.task_id,
            self._run.epoch,
            cancelling=cancelling,
            checked=frozenset(self._checked),
            limits=self._our.limits,
            by=self._our.by,
        )
        self._checked -= standing.held_back
        self._board.expect({attempt.id: item.id for item, attempt in standing.open})
        for agent_id, waiting in standing.unchecked.items():
            # a check may have been answered while the transaction ran
            if unseen := [item for item in waiting if item.id not in self._checked]:
                errands.start(f"check {agent_id}", self._check, agent_id, unseen)
        for agent_id, pairs in _by_agent(standing.open):
            if cancelling:
                errands.start(f"stop {agent_id}", self._stop, agent_id, pairs)
            elif unsent := [(item, attempt) for item, attempt in pairs if not attempt.accepted]:
                platform = standing.platforms[agent_id]
                errands.start(f"send {agent_id}", self._send, agent_id, unsent, platform)
        return standing.items

    async def _check(self, agent_id: str, waiting: Sequence[ItemRow]) -> None:
        """Look for the images on one host; what is there already is skipped.

        A host that does not answer is left to the attempts, which say so.
        """
        checks = [
            PullOrder(
                attempt_id=item.id,
                reference=item.reference,
                root_digest=self._images[item.reference].root_digest,
                layers=(),
                policy=PullPolicy.CHECK,
            )
            for item in waiting
        ]
        try:
            _, answers = await self._our.calls.check_and_pull(
                agent_id, checks, deadline=_CHECK_SECONDS
            )
        except AgentUnreachable as error:
            log.info("presence not checked", agent=agent_id, error=error.message)
        else:
            await self._our.storage.write(
                skip_present,
                self._run.task_id,
                self._run.epoch,
                agent_id,
                waiting,
                answers,
                by=self._our.by,
            )
        self._checked |= {item.id for item in waiting}
        self._rounds.ring()

    async def _send(
        self, agent_id: str, unsent: Sequence[tuple[ItemRow, Attempt]], platform: Platform
    ) -> None:
        """Send attempts to their agent, and apply what it answers."""
        worth = await self._note_sending([attempt.id for _, attempt in unsent])
        sent = [
            order
            for _, attempt in unsent
            if attempt.id in worth
            if (order := await self._order(attempt, platform)) is not None
        ]
        if sent:
            async with self._pause.after_trouble(agent_id):
                incarnation, answers = await self._our.calls.check_and_pull(agent_id, sent)
                await self._our.storage.write(
                    attempts.apply_answers, agent_id, answers, incarnation, by=self._our.by
                )
        self._rounds.ring()

    async def _note_sending(self, attempt_ids: Sequence[str]) -> Sequence[str]:
        return await self._our.storage.write(
            note_sending, self._run.task_id, self._run.epoch, attempt_ids, by=self._our.by
        )

    async def _order(self, attempt: Attempt, platform: Platform) -> PullOrder | None:
        """What the agent is told, or None when the attempt had to fail here."""
        image = self._images[attempt.reference]
        try:
            registry = await self._our.registries.connection(image.reference.registry)
        except (UnknownRegistry, VaultError) as error:
            barred = Failure(FailureClass.AUTH, error.message)
            await self._our.storage.write(attempts.fail, attempt.id, barred, by=self._our.by)
            return None
        variant, margin = image.for_platform(platform), self._our.limits.disk_margin
        return orders.pull(attempt, PullPolicy.PRELOAD, registry, variant, margin)

    async def _stop(self, agent_id: str, pairs: Sequence[tuple[ItemRow, Attempt]]) -> None:
        """Stop attempts nobody waits for any more; each ends as the agent says it ended.

        What it never accepted is asked for as often as it would have been sent, and no more: an
        agent may go on to report and never answer a call.
        """
        unaccepted = [attempt.id for _, attempt in pairs if not attempt.accepted]
        if unaccepted:
            await self._note_sending(unaccepted)
        async with self._pause.after_trouble(agent_id):
            answers = await self._our.calls.cancel(agent_id, [attempt.id for _, attempt in pairs])
            await self._our.storage.write(
                attempts.apply_answers, agent_id, answers, None, by=self._our.by
            )
        self._rounds.ring()


def _by_agent(
    pairs: Iterable[tuple[ItemRow, Attempt]],
) -> Iterable[tuple[str, Sequence[tuple[ItemRow, Attempt]]]]:
    for agent_id, group in groupby(pairs, key=lambda pair: pair[0].agent_id):
        yield agent_id, list(group)
