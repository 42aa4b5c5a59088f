"""Whose turn it is: oldest first, and first in, first out for each user."""

from collections.abc import Sequence
from dataclasses import replace

from wharfinger.manager.scheduler.picture import (
    Account,
    Rest,
    WaitingKernel,
    WaitingSession,
)


class Line:
    """One user's sessions in the queue, as a plan works through them.

    `account` is what the user has with what was planned so far; `ahead` is the last session that
    those behind it have to wait for.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.ahead: str | None = None

    def admit(self, session: WaitingSession) -> None:
        """It is bound: its user has that much more."""
        self.account = replace(
            self.account,
            occupied=self.account.occupied + session.asked,
            active=self.account.active + (session.rest is Rest.NONE),
        )

    def block(self, session: WaitingSession) -> None:
        """Those behind it wait."""
        self.ahead = session.id


def rests(kernel: WaitingKernel, at: float) -> bool:
    """Whether it cannot be placed yet, whatever room there is: its reference is not resolved, or
    its next try is not due. Others say why."""
    is_due = kernel.next_try_at is None or kernel.next_try_at <= at
    return kernel.root_digest is None or not is_due


def next_due(sessions: Sequence[WaitingSession], at: float) -> float | None:
    """Seconds until the first kernel is due that is not."""
    return min(
        (
            kernel.next_try_at - at
            for session in sessions
            for kernel in session.kernels
            if kernel.next_try_at is not None and kernel.next_try_at > at
        ),
        default=None,
    )
