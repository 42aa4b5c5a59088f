"""Whose turn it is: oldest first, and first in, first out for each user."""

from collections.abc import Sequence

from wharfinger.manager.scheduler import predicates
from wharfinger.manager.scheduler.picture import Account, Rest, WaitingKernel, WaitingSession
from wharfinger.manager.scheduler.predicates import Hold


class Line:
    """One user's sessions in the queue, as a plan works through them.

    `occupied` and `active` are what the user has with what was planned so far; `ahead` is the last
    session that those behind it have to wait for.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.occupied = account.occupied
        self.active = account.active
        self.ahead: str | None = None

    def holds_back(self, session: WaitingSession) -> Hold | None:
        """What the order and the user's limits say. One that is partly bound had its turn, and
        counts among the user's sessions."""
        if session.rest is Rest.NONE:
            hold = predicates.in_line(self.ahead) or predicates.sessions_exceeded(
                self.account.max_sessions, self.active
            )
            if hold is not None:
                return hold
        return predicates.quota_exceeded(self.account.quota, self.occupied, session.asked)

    def admit(self, session: WaitingSession) -> None:
        """It is bound: its user has that much more."""
        self.occupied += session.asked
        self.active += session.rest is Rest.NONE

    def block(self, session: WaitingSession) -> None:
        """Those behind it wait."""
        self.ahead = session.id


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
