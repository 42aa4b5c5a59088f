"""What the manager has yet to hear of attempts, kept until it says that it has."""

import asyncio
from collections.abc import Callable
from typing import Final

from wharfinger.contracts.ingest import (
    Event,
    ImagePullFailed,
    ImagePullFinished,
    ImagePullStarted,
)
from wharfinger.contracts.rpc import PullOrder
from wharfinger.contracts.wire import FailureReport, ImageEvidence
from wharfinger.domain.failures import Failure

LARGE: Final = 1000
"""Events from which on a start is forgotten once its end is in the box too."""


class Outbox:
    """Events by ascending sequence, from 1 in each incarnation. `news` is set by each one."""

    def __init__(self, news: asyncio.Event, *, large: int = LARGE) -> None:
        self._news = news
        self._large = large
        self._events: list[Event] = []
        self._sequence = 0

    @property
    def pending(self) -> tuple[Event, ...]:
        """All that is not acknowledged."""
        return tuple(self._events)

    def started(self, order: PullOrder) -> None:
        """The engine was asked to pull."""
        self._put(lambda sequence: ImagePullStarted(**_subject(order), sequence=sequence))

    def finished(self, order: PullOrder, evidence: ImageEvidence) -> None:
        """The image is there."""
        self._put(
            lambda sequence: ImagePullFinished(
                **_subject(order), sequence=sequence, evidence=evidence
            )
        )
        self._thin()

    def failed(self, order: PullOrder, failure: Failure) -> None:
        """The attempt ended without the image."""
        self._put(
            lambda sequence: ImagePullFailed(
                **_subject(order), sequence=sequence, failure=FailureReport.of(failure)
            )
        )
        self._thin()

    def acknowledge(self, sequence: int) -> None:
        """Events up to this one are kept by the manager."""
        self._events = [event for event in self._events if event.sequence > sequence]

    def _put(self, event: Callable[[int], Event]) -> None:
        self._sequence += 1
        self._events.append(event(self._sequence))
        self._news.set()

    def _thin(self) -> None:
        if len(self._events) <= self._large:
            return
        ended = {
            event.attempt_id for event in self._events if not isinstance(event, ImagePullStarted)
        }
        self._events = [
            event
            for event in self._events
            if not (isinstance(event, ImagePullStarted) and event.attempt_id in ended)
        ]


def _subject(order: PullOrder) -> dict[str, str]:
    return {
        "attempt_id": order.attempt_id,
        "reference": order.reference,
        "root_digest": order.root_digest,
    }
