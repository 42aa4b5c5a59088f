"""Whose turn it is: oldest first, and first in, first out for each user."""

from collections.abc import Sequence

from wharfinger.domain.slots import Slots
from wharfinger.manager.scheduler import predicates
from wharfinger.manager.scheduler.picture import Account, Rest, WaitingKernel, WaitingSession
from wharfinger.manager.scheduler.placement import Need
from wharfinger.manager.scheduler.predicates import Hold


class Line:
    """One user's sessions in the queue, as a plan works through them.

    `occupied` and `active` are what the user has with what was planned so far; `ahead` is the last
    session that those behind it have to wait for.

    A session that is held back for the preparation of its image keeps its place, and stops nobody:
    younger ones of its user go on as far as they leave what it will take, of the user's limits and
    (for the oldest so `held`) of the agents. They would wait for nothing otherwise: the preparation
    may take an hour, and none of them is in its way.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.occupied = account.occupied
        self.active = account.active
        self.ahead: str | None = None
        self.held: str | None = None
        self._held_needs: Sequence[Need] = ()
        self._held_asked = Slots()
        self._held_active = 0

    def holds_back(self, session: WaitingSession) -> Hold | None:
        """What the order and the user's limits say. One that is partly bound had its turn, and
        counts among the user's sessions."""
        if session.rest is not Rest.NONE:
            return predicates.quota_exceeded(self.account.quota, self.occupied, session.asked)
        return (
            predicates.in_line(self.ahead)
            or self._limited(session, self.occupied, self.active)
            or self._behind_held(session)
        )

    def admit(self, session: WaitingSession) -> None:
        """It is bound: its user has that much more."""
        self.occupied += session.asked
        self.active += session.rest is Rest.NONE

    def hold(self, session: WaitingSession, needs: Sequence[Need]) -> None:
        """It is held back for a preparation, and will need this."""
        if self.held is None:
            self.held, self._held_needs = session.id, needs
        self._held_asked += session.asked
        self._held_active += session.rest is Rest.NONE

    def left_for_held(self, session: WaitingSession) -> Sequence[Need]:
        """What this session leaves for an older one that is held back."""
        return self._held_needs if session.rest is Rest.NONE else ()

    def block(self, session: WaitingSession) -> None:
        """Those behind it wait."""
        self.ahead = session.id

    def _behind_held(self, session: WaitingSession) -> Hold | None:
        if self.held is None:
            return None
        occupied, active = self.occupied + self._held_asked, self.active + self._held_active
        is_over = self._limited(session, occupied, active)
        return predicates.behind(self.held) if is_over else None

    def _limited(self, session: WaitingSession, occupied: Slots, active: int) -> Hold | None:
        return predicates.sessions_exceeded(
            self.account.max_sessions, active
        ) or predicates.quota_exceeded(self.account.quota, occupied, session.asked)


def rests(kernel: WaitingKernel, at: float) -> bool:
    """Whether it cannot be placed yet, whatever room there is: its reference is not resolved, or
    its next try is not due. It says so already."""
    is_due = kernel.next_try_at is None or kernel.next_try_at <= at
    return kernel.root_digest is None or not is_due


def next_due(sessions: Sequence[WaitingSession], at: float) -> float | None:
    """Seconds until the first kernel is due that is not."""
    later = [
        kernel.next_try_at - at
        for session in sessions
        for kernel in session.kernels
        if kernel.next_try_at is not None and kernel.next_try_at > at
    ]
    return min(later, default=None)
