"""What a round decides, as the transactions that follow are told."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wharfinger.manager.scheduler.picture import Rest, WaitingKernel, WaitingSession
from wharfinger.manager.scheduler.predicates import Hold


class Binding(NamedTuple):
    """A session whose waiting kernels are to be bound, all of them, each to the agent of its
    place."""

    session: WaitingSession
    agent_ids: Sequence[str]

    @property
    def joins(self) -> bool:
        """Whether it counts among its owner's sessions from then on, and did not before."""
        return self.session.rest is Rest.NONE

    @property
    def placed(self) -> Iterable[tuple[WaitingKernel, str]]:
        """The kernels, each with its agent."""
        return zip(self.session.kernels, self.agent_ids, strict=True)


class Release(NamedTuple):
    """A session that holds slots and cannot go on: it is to give them back."""

    session_id: str
    hold: Hold


class Word(NamedTuple):
    """What a waiting kernel is to say from now on: nothing, without a `hold`."""

    kernel_id: str
    hold: Hold | None


@dataclass(slots=True)
class Plan:
    """What a round found. `blocked` are sessions that are first in their line and without room
    since now, `unblocked` no longer; `held` are held back for a preparation for the first time.
    `at` is the database's time; `waiting` counts the sessions in the queue, before the
    bindings; `next_due` is in how many seconds another kernel may be tried."""

    at: float
    waiting: int
    next_due: float | None
    bindings: list[Binding] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    unblocked: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
