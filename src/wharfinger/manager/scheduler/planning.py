"""One round's decisions: who is bound where, who is released, and what the others are told.

Pure: a picture in, a plan out. What the plan binds is checked once more under lock (`binding`).
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from wharfinger.domain.sessions import Reason
from wharfinger.manager.gate.preparations import Preparation
from wharfinger.manager.scheduler import predicates, queue
from wharfinger.manager.scheduler.decisions import Binding, Plan, Release, Word
from wharfinger.manager.scheduler.demands import Demand, Demands, hardest_first
from wharfinger.manager.scheduler.picture import (
    Account,
    Picture,
    Rest,
    WaitingKernel,
    WaitingSession,
)
from wharfinger.manager.scheduler.placement import Need, NoRoom, Room
from wharfinger.manager.scheduler.predicates import Hold
from wharfinger.manager.scheduler.queue import Line

HOLD_AFTER: Final = 60.0
"""Seconds without room after which the first of a line holds the agents it could use."""

_NO_LIMITS: Final = Account()


def plan(picture: Picture, *, hold_after: float = HOLD_AFTER) -> Plan:
    """Decide for every session of the queue, the oldest first."""
    return _Round(picture, hold_after).decide()


class _Round:
    def __init__(self, picture: Picture, hold_after: float) -> None:
        self._at = picture.at
        self._sessions = picture.sessions
        self._accounts = picture.accounts
        self._hold_after = hold_after
        self._room = Room.of(picture.hosts, picture.holders, picture.pulls)
        self._demands = Demands(picture)
        self._lines: dict[str, Line] = {}
        self._preparing_left: dict[Demand, deque[Preparation]] = {}
        self._plan = Plan(self._at, len(self._sessions), queue.next_due(self._sessions, self._at))

    def decide(self) -> Plan:
        for session in self._sessions:
            if any(queue.rests(kernel, self._at) for kernel in session.kernels):
                self._let_rest(session)
            else:
                self._give_turn(session)
        return self._plan

    def _let_rest(self, session: WaitingSession) -> None:
        """It is passed over; those of its kernels that are ready have nothing to say."""
        self._say([each for each in session.kernels if not queue.rests(each, self._at)], None)
        self._note_unblocked(session)

    def _give_turn(self, session: WaitingSession) -> None:
        line = self._line(session.owner_id)
        demands = [self._demands.of(session, line.account, kernel) for kernel in session.kernels]
        hold = _unsuitable(demands) or line.holds_back(session)
        if hold is None:
            placed = self._place(demands, line.left_for_held(session))
            if not isinstance(placed, NoRoom):
                line.admit(session)
                self._plan.bindings.append(Binding(session, placed))
                return
            hold = self._why(session, line, demands, placed)
        self._hold_back(session, line, demands, hold)

    def _place(self, demands: Sequence[Demand], beside: Sequence[Need]) -> Sequence[str] | NoRoom:
        """An agent for each, the hardest to place first."""
        if len(demands) == 1:
            return self._room.place([demands[0].need], beside)
        order = sorted(range(len(demands)), key=lambda place: demands[place].ease)
        placed = self._room.place([demands[place].need for place in order], beside)
        if isinstance(placed, NoRoom):
            return placed
        agents = dict(zip(order, placed, strict=True))
        return tuple(agents[place] for place in range(len(demands)))

    def _why(
        self, session: WaitingSession, line: Line, demands: Sequence[Demand], failed: NoRoom
    ) -> Hold:
        """Why it was not placed: for an older one of its user that is held back, for a preparation,
        or for want of room."""
        order = hardest_first(demands)
        if line.held is not None and self._room.admits([each.need for each in order]):
            return predicates.behind(line.held)
        is_prepared = any(each.preparing for each in demands)
        if is_prepared and self._room.admits([each.later for each in order]):
            return self._preparing(session, demands)
        return self._no_room(session, demands, failed)

    def _preparing(self, session: WaitingSession, demands: Sequence[Demand]) -> Hold:
        said = session.kernels[0].data or {}
        there = [
            each
            for demand in demands
            for each in (self._nearest(demand), self._on(said.get("agentId", ""), demand))
            if each is not None
        ]
        return predicates.pending_image_preparation(there, said)

    def _nearest(self, demand: Demand) -> Preparation | None:
        """Among the agents with room for it, if there are any: of several kernels together one may
        have taken another's."""
        left = self._preparing_left.get(demand)
        if left is None:
            left = self._preparing_left[demand] = deque(demand.preparing.values())
        while left and not self._room.has_on(left[0].agent_id, demand.ask.slots):
            left.popleft()  # nor will it have room for the next session
        return left[0] if left else next(iter(demand.preparing.values()), None)

    def _on(self, agent_id: str, demand: Demand) -> Preparation | None:
        has_room = self._room.has_on(agent_id, demand.ask.slots)
        return demand.preparing.get(agent_id) if has_room else None

    def _no_room(self, session: WaitingSession, demands: Sequence[Demand], failed: NoRoom) -> Hold:
        if len(demands) > 1 and not self._demands.could_go_together(demands):
            return predicates.not_together(session)
        demand = next(each for each in demands if each.need is failed.need)
        return predicates.no_free_slots(demand.ask.slots, demand.candidates, failed.held_for)

    def _hold_back(
        self, session: WaitingSession, line: Line, demands: Sequence[Demand], hold: Hold
    ) -> None:
        if hold.blocks:
            line.block(session)
        if hold.info is Reason.PENDING_IMAGE_PREPARATION:
            self._note_held(session, line, demands)
        elif hold.info is Reason.NO_FREE_SLOTS:
            self._note_blocked(session, demands)
        else:
            self._note_unblocked(session)
        if session.rest is Rest.BOUND:
            self._plan.releases.append(Release(session.id, hold))
        else:
            self._say(session.kernels, hold)

    def _note_held(self, session: WaitingSession, line: Line, demands: Sequence[Demand]) -> None:
        """It has room, so it holds no agents meanwhile; if others take the room before it may,
        since when it has waited for room still counts."""
        line.hold(session, [each.later for each in hardest_first(demands)])
        if session.held_since is None:
            self._plan.held.append(session.id)

    def _note_blocked(self, session: WaitingSession, demands: Sequence[Demand]) -> None:
        """Who has been without room for long holds the agents it could use."""
        if session.blocked_since is None:
            self._plan.blocked.append(session.id)
        elif self._at - session.blocked_since >= self._hold_after:
            for demand in demands:
                self._room.hold(demand.need, session.id)

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
            line = self._lines[owner_id] = Line(self._accounts.get(owner_id, _NO_LIMITS))
        return line


def _unsuitable(demands: Sequence[Demand]) -> Hold | None:
    """Whether no agent could ever take one of them."""
    return next((demand.unsuitable for demand in demands if demand.unsuitable), None)
