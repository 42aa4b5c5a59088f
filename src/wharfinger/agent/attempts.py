"""Every attempt this incarnation has heard of, each with at most one end."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wharfinger.agent.outbox import Outbox
from wharfinger.agent.recent import Recent
from wharfinger.contracts.rpc import PullAnswer, PullOrder, PullOutcome
from wharfinger.contracts.wire import FailureReport, ImageEvidence
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import Reference

CANCELLED: Final = Failure(FailureClass.CANCELLED, "the attempt was cancelled")


@dataclass(frozen=True, eq=False, slots=True)
class Attempt:
    """An accepted order in hand. `task_id` names the pull that works for it."""

    order: PullOrder
    reference: Reference
    task_id: str

    @property
    def id(self) -> str:
        """The manager's id of it."""
        return self.order.attempt_id


class Attempts:
    """Attempts in hand, and how the others ended.

    The first end of an attempt stays; it is what a repeated call is answered for some minutes. An
    accepted attempt's end is also an event.
    """

    def __init__(self, outbox: Outbox, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._outbox = outbox
        self._in_hand: dict[str, Attempt] = {}
        self._ended: Recent[PullAnswer] = Recent(clock)

    @property
    def in_hand(self) -> tuple[Attempt, ...]:
        """Accepted and not ended, in the order they came."""
        return tuple(self._in_hand.values())

    def find(self, attempt_id: str) -> Attempt | None:
        """The attempt, if it is in hand."""
        return self._in_hand.get(attempt_id)

    def state(self, attempt_id: str) -> PullAnswer | None:
        """What a call about this attempt is answered; None when it is not known."""
        if attempt := self._in_hand.get(attempt_id):
            return PullAnswer(
                attempt_id=attempt_id, outcome=PullOutcome.PULLING, task_id=attempt.task_id
            )
        return self._ended.get(attempt_id)

    def accept(self, attempt: Attempt) -> None:
        """It is in hand from now on, until one of the ends below."""
        assert self.state(attempt.id) is None, attempt
        self._in_hand[attempt.id] = attempt

    def started(self, attempt: Attempt) -> None:
        """The engine was asked to pull for it."""
        if attempt.id in self._in_hand:
            self._outbox.started(attempt.order)

    def finished(self, attempt: Attempt, evidence: ImageEvidence) -> None:
        """The image is there."""
        if self._in_hand.pop(attempt.id, None):
            self._outbox.finished(attempt.order, evidence)
            self.answered(_answer(attempt.id, PullOutcome.PRESENT, evidence=evidence))

    def failed(self, attempt: Attempt, failure: Failure) -> None:
        """It ended without the image; class `cancelled` means it was aborted."""
        if self._in_hand.pop(attempt.id, None):
            self._outbox.failed(attempt.order, failure)
            aborted = failure.failure_class is FailureClass.CANCELLED
            self.answered(
                _answer(attempt.id, PullOutcome.ABORTED)
                if aborted
                else _answer(attempt.id, PullOutcome.FAILED, failure=FailureReport.of(failure))
            )

    def answered(self, answer: PullAnswer) -> None:
        """Keep an answer that ended an attempt at once, without one ever being in hand.

        A cancelled id that is not known is kept so too: its order may still be on its way.
        """
        self._ended.keep(answer.attempt_id, answer)


def _answer(
    attempt_id: str,
    outcome: PullOutcome,
    *,
    evidence: ImageEvidence | None = None,
    failure: FailureReport | None = None,
) -> PullAnswer:
    return PullAnswer(attempt_id=attempt_id, outcome=outcome, evidence=evidence, failure=failure)
