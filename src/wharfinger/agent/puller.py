"""Takes orders to make images present, and cancels them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from wharfinger.agent.attempts import Attempt, Attempts
from wharfinger.agent.engine.port import Engine, EngineDescription, EngineError
from wharfinger.agent.in_time import in_time, within
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.outbox import Outbox
from wharfinger.agent.presence import evidence_of, lacking
from wharfinger.agent.pull import Pull
from wharfinger.agent.room import Room
from wharfinger.contracts.ingest import AttemptProgress
from wharfinger.contracts.rpc import PullAnswer, PullOrder, PullOutcome, PullPolicy
from wharfinger.contracts.wire import FailureReport, ImageEvidence
from wharfinger.domain.errors import InvalidReference
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import Reference

_LOOK_SHARE: Final = 0.5
"""Of a call's deadline: how long the engine may take to say what is there."""


class Puller:
    """The agent's pulls. `describe` tells who the engine is, for a look; `inactivity_seconds`
    overrides what the engine's dialect says."""

    def __init__(
        self,
        engine: Engine,
        locks: KeyedLocks,
        outbox: Outbox,
        *,
        room: Room,
        describe: Callable[[], Awaitable[EngineDescription]],
        inactivity_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._locks = locks
        self._room = room
        self._describe = describe
        self._inactivity_seconds = inactivity_seconds
        self._clock = clock
        self._attempts = Attempts(outbox, clock=clock)
        self._joinable: dict[str, Pull] = {}
        self._pulls: dict[str, Pull] = {}

    def in_hand(self) -> tuple[str, ...]:
        """The ids of attempts that are not ended."""
        return tuple(attempt.id for attempt in self._attempts.in_hand)

    def progress(self) -> tuple[AttemptProgress, ...]:
        """How far each attempt in hand is."""
        return tuple(
            self._pulls[attempt.task_id].progress.report(attempt.id)
            for attempt in self._attempts.in_hand
        )

    async def check_and_pull(
        self, orders: Sequence[PullOrder], deadline_seconds: float
    ) -> list[PullAnswer]:
        """One answer per order: there already, or a pull is under way and will end in an event."""
        until = within(deadline_seconds * _LOOK_SHARE)
        return await asyncio.gather(*(self._take(order, until) for order in orders))

    async def cancel(self, attempt_ids: Sequence[str], deadline_seconds: float) -> list[PullAnswer]:
        """One answer per attempt, once its pull has stopped or goes on for others.

        An attempt whose pull does not stop within the deadline is answered `pulling`. An unknown
        one is `aborted`, and an order that names it later is not begun.
        """
        for attempt_id in attempt_ids:
            if self._attempts.state(attempt_id) is None:
                self._attempts.answered(
                    PullAnswer(attempt_id=attempt_id, outcome=PullOutcome.ABORTED)
                )
        leaving = [
            self._pulls[attempt.task_id].leave(attempt)
            for attempt in map(self._attempts.find, attempt_ids)
            if attempt is not None
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds):
                await asyncio.gather(*leaving)
        return [self._state(attempt_id) for attempt_id in attempt_ids]

    async def close(self) -> None:
        """Abort all pulls."""
        await asyncio.gather(*(pull.close() for pull in list(self._pulls.values())))

    async def _take(self, order: PullOrder, until: float) -> PullAnswer:
        if known := self._attempts.state(order.attempt_id):
            return known
        try:
            reference = Reference.parse(order.reference)
        except InvalidReference as error:
            return self._refuse(order, Failure(FailureClass.INVALID_REFERENCE, error.message))
        look = await self._look(order, reference, until)
        if known := self._attempts.state(order.attempt_id):  # cancelled or repeated meanwhile
            return known
        if order.policy in {PullPolicy.CHECK, PullPolicy.LOOK}:
            return _looked(order, look)
        if isinstance(look, ImageEvidence):
            answer = _looked(order, look)
            self._attempts.answered(answer)
            return answer
        attempt = self._begin(order, reference)
        return self._state(attempt.id)

    async def _look(
        self, order: PullOrder, reference: Reference, until: float
    ) -> ImageEvidence | Failure | None:
        """Evidence that the image is there as ordered, None, or why the engine cannot tell.

        What is seen while a pull or a removal of it is under way is good for a mere check only.
        """
        if self._in_flux(order):
            return None
        try:
            async with in_time(until):
                host = (await self._describe()).platform
                image = await self._engine.inspect(reference.pinned(order.root_digest))
        except EngineError as error:
            return error.failure
        if image is None or lacking(image, order, reference, host) is not None:
            return None
        # a removal may have begun since
        return None if self._in_flux(order) else evidence_of(image)

    def _in_flux(self, order: PullOrder) -> bool:
        return order.policy is not PullPolicy.CHECK and self._locks.busy(order.root_digest)

    def _begin(self, order: PullOrder, reference: Reference) -> Attempt:
        pinned = reference.pinned(order.root_digest)
        pull = self._joinable.get(pinned)
        if pull is None:
            pull = Pull(
                reference,
                order,
                engine=self._engine,
                locks=self._locks,
                room=self._room,
                attempts=self._attempts,
                on_over=self._over,
                inactivity_seconds=self._inactivity_seconds,
                clock=self._clock,
            )
            self._joinable[pinned] = self._pulls[pull.id] = pull
        attempt = Attempt(order, reference, pull.id)
        self._attempts.accept(attempt)
        pull.join(attempt)
        return attempt

    def _over(self, pull: Pull) -> None:
        if self._joinable.get(pull.pinned) is pull:
            del self._joinable[pull.pinned]
        if pull.over:
            self._pulls.pop(pull.id, None)

    def _state(self, attempt_id: str) -> PullAnswer:
        state = self._attempts.state(attempt_id)
        assert state is not None, attempt_id
        return state

    def _refuse(self, order: PullOrder, failure: Failure) -> PullAnswer:
        answer = PullAnswer(
            attempt_id=order.attempt_id,
            outcome=PullOutcome.FAILED,
            failure=FailureReport.of(failure),
        )
        self._attempts.answered(answer)
        return answer


def _looked(order: PullOrder, look: ImageEvidence | Failure | None) -> PullAnswer:
    """The answer to somebody who only looks, or needs no more than that."""
    match look:
        case ImageEvidence():
            return PullAnswer(
                attempt_id=order.attempt_id, outcome=PullOutcome.PRESENT, evidence=look
            )
        case Failure():
            return PullAnswer(
                attempt_id=order.attempt_id,
                outcome=PullOutcome.FAILED,
                failure=FailureReport.of(look),
            )
        case None:
            return PullAnswer(attempt_id=order.attempt_id, outcome=PullOutcome.ABSENT)
