"""One round's decisions: who is bound where, who is released, and what the others are told.

Pure: a picture in, a plan out. What the plan binds is checked once more under lock (`binding`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Slots
from wharfinger.manager.scheduler import predicates, queue
from wharfinger.manager.scheduler.picture import (
    Account,
    Picture,
    Rest,
    WaitingKernel,
    WaitingSession,
)
from wharfinger.manager.scheduler.placement import Need, NoRoom, Pool, Room
from wharfinger.manager.scheduler.predicates import Ask, Cause, Hold
from wharfinger.manager.scheduler.queue import Line

HOLD_AFTER: Final = 60.0
"""Seconds without room after which the first of a line holds the agents it could use."""

_NO_LIMITS: Final = Account()


@dataclass(frozen=True, slots=True)
class PlacedKernel:
    """A kernel and the agent it is to be bound to."""

    id: str
    agent_id: str
    slots: Slots
    root_digest: str


@dataclass(frozen=True, slots=True)
class Binding:
    """A session whose waiting kernels, all of them, are to be bound. `joins`: it counts among its
    owner's sessions from then on."""

    session_id: str
    owner_id: str
    joins: bool
    kernels: Sequence[PlacedKernel]


@dataclass(frozen=True, slots=True)
class Release:
    """A session that holds slots and cannot go on: it is to give them back."""

    session_id: str
    hold: Hold


@dataclass(frozen=True, slots=True)
class Word:
    """What a waiting kernel is to say from now on."""

    kernel_id: str
    hold: Hold | None


@dataclass(slots=True)
class Plan:
    """What a round found. `blocked` are sessions that are first in their line and without room
    since now, `unblocked` no longer. `waiting` counts the sessions in the queue, before the
    bindings; `next_due` is in how many seconds another kernel may be tried."""

    waiting: int
    next_due: float | None
    bindings: list[Binding] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    unblocked: list[str] = field(default_factory=list)


def plan(picture: Picture, *, hold_after: float = HOLD_AFTER) -> Plan:
    """Decide for every session of the queue, the oldest first."""
    return _Round(picture, hold_after).decide()


class _Round:
    def __init__(self, picture: Picture, hold_after: float) -> None:
        self._picture = picture
        self._hold_after = hold_after
        self._room = Room.of(picture.hosts, picture.holders, picture.pulls)
        self._empty = Room.empty(picture.hosts)
        self._lines: dict[str, Line] = {}
        self._pools: dict[tuple[Any, ...], Sequence[Pool]] = {}
        self._causes: dict[Ask, Counter[Cause | None]] = {}
        self._plan = Plan(len(picture.sessions), queue.next_due(picture.sessions, picture.at))

    def decide(self) -> Plan:
        for session in self._picture.sessions:
            if any(queue.rests(kernel, self._picture.at) for kernel in session.kernels):
                self._let_rest(session)
            else:
                self._give_turn(session)
        return self._plan

    def _let_rest(self, session: WaitingSession) -> None:
        """It is passed over; those of its kernels that are ready have nothing to say."""
        ready = [each for each in session.kernels if not queue.rests(each, self._picture.at)]
        self._say(ready, None)
        self._note_unblocked(session)

    def _give_turn(self, session: WaitingSession) -> None:
        line = self._line(session.owner_id)
        wanted: Sequence[_Want] = [
            self._want(session, line.account, kernel) for kernel in session.kernels
        ]
        hold = self._unsuitable(wanted) or _held_by_user(session, line)
        if hold is None:
            wanted = self._hardest_first(wanted)
            placed = self._room.place([want.need for want in wanted])
            if not isinstance(placed, NoRoom):
                self._bind(session, line, wanted, placed)
                return
            hold = self._no_room(session, wanted, placed)
        self._hold_back(session, line, wanted, hold)

    def _unsuitable(self, wanted: Sequence["_Want"]) -> Hold | None:
        """Whether no agent could ever take one of the kernels."""
        for want in wanted:
            if not self._empty.has_for(want.need):
                causes = self._causes_against(want.ask)
                return predicates.no_suitable_agent(self._picture, want.ask, causes)
        return None

    def _no_room(self, session: WaitingSession, wanted: Sequence["_Want"], failed: NoRoom) -> Hold:
        if len(wanted) > 1 and not self._empty.admits([want.need for want in wanted]):
            return predicates.not_together(session)
        ask = next(want.ask for want in wanted if want.need is failed.need)
        candidates = self._causes_against(ask)[None]
        return predicates.no_free_slots(ask.slots, candidates, failed.held_for)

    def _bind(
        self, session: WaitingSession, line: Line, wanted: Sequence["_Want"], placed: Sequence[str]
    ) -> None:
        line.admit(session)
        self._plan.bindings.append(
            Binding(
                session.id,
                session.owner_id,
                session.rest is Rest.NONE,
                [
                    PlacedKernel(want.kernel.id, agent_id, want.ask.slots, want.ask.root_digest)
                    for want, agent_id in zip(wanted, placed, strict=True)
                ],
            )
        )

    def _hold_back(
        self, session: WaitingSession, line: Line, wanted: Sequence["_Want"], hold: Hold
    ) -> None:
        if hold.blocks:
            line.block(session)
        if hold.info is Reason.NO_FREE_SLOTS:
            self._note_blocked(session, wanted)
        else:
            self._note_unblocked(session)
        if session.rest is Rest.BOUND:
            self._plan.releases.append(Release(session.id, hold))
        else:
            self._say(session.kernels, hold)

    def _note_blocked(self, session: WaitingSession, wanted: Sequence["_Want"]) -> None:
        """Who has been without room for long holds the agents it could use."""
        if session.blocked_since is None:
            self._plan.blocked.append(session.id)
        elif self._picture.at - session.blocked_since >= self._hold_after:
            for want in wanted:
                self._room.hold(want.need, session.id)

    def _note_unblocked(self, session: WaitingSession) -> None:
        if session.blocked_since is not None:
            self._plan.unblocked.append(session.id)

    def _say(self, kernels: Sequence[WaitingKernel], hold: Hold | None) -> None:
        said = (hold.info, hold.data) if hold else (None, None)
        self._plan.words.extend(
            Word(kernel.id, hold) for kernel in kernels if (kernel.info, kernel.data) != said
        )

    def _line(self, owner_id: str) -> Line:
        """An owner that is gone has no limits."""
        line = self._lines.get(owner_id)
        if line is None:
            account = self._picture.accounts.get(owner_id, _NO_LIMITS)
            line = self._lines[owner_id] = Line(account)
        return line

    def _want(self, session: WaitingSession, account: Account, kernel: WaitingKernel) -> "_Want":
        assert kernel.root_digest is not None  # else it rests
        ask = Ask(kernel.slots, kernel.root_digest, session.scaling_group, account.scaling_groups)
        without = predicates.taken_out(self._picture, kernel.root_digest)
        need = Need(kernel.slots, kernel.root_digest, self._pools_for(ask), without)
        return _Want(kernel, ask, need)

    def _pools_for(self, ask: Ask) -> Sequence[Pool]:
        key = (ask.root_digest, ask.session_group, ask.user_groups)
        pools = self._pools.get(key)
        if pools is None:
            images = self._picture.platforms.get(ask.root_digest)
            pools = self._pools[key] = [
                pool
                for pool in self._room.pools
                if predicates.may_use(pool.scaling_group, ask.session_group, ask.user_groups)
                and predicates.suits(pool.platform, images)
            ]
        return pools

    def _hardest_first(self, wanted: Sequence["_Want"]) -> Sequence["_Want"]:
        """Who has few agents to go to, or asks for much, must not find them taken by a sibling."""
        if len(wanted) == 1:
            return wanted

        def ease(want: "_Want") -> tuple[int, int, int, int]:
            slots = want.ask.slots
            return self._causes_against(want.ask)[None], -slots.gpu, -slots.cpu, -slots.mem

        return sorted(wanted, key=ease)

    def _causes_against(self, ask: Ask) -> Counter[Cause | None]:
        causes = self._causes.get(ask)
        if causes is None:
            causes = self._causes[ask] = predicates.count_causes(self._picture, ask)
        return causes


class _Want(NamedTuple):
    """A waiting kernel, what it asks for, and what that means among the agents there are."""

    kernel: WaitingKernel
    ask: Ask
    need: Need


def _held_by_user(session: WaitingSession, line: Line) -> Hold | None:
    """What the user's line and limits say. One that is partly bound has had its turn."""
    had_its_turn = session.rest is not Rest.NONE
    return (
        (None if had_its_turn else predicates.in_line(line.ahead))
        or predicates.sessions_exceeded(line.account, session)
        or predicates.quota_exceeded(line.account, session.asked)
    )
