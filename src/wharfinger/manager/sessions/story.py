"""What a watcher has been told of a session, and what is news to it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions.views import (
    KernelView,
    PullFigures,
    SessionView,
    transition_to_json,
)
from wharfinger.manager.storage.transitions import Transition

SESSION_UPDATED: Final = "session_updated"
KERNEL_UPDATED: Final = "kernel_updated"
SESSION_ENDED: Final = "session_ended"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """What a watcher gets. `kind`: session_updated, kernel_updated, session_ended; `id` is the
    highest number of a transition told by then."""

    id: str
    kind: str
    data: Mapping[str, Any]

    @property
    def last(self) -> bool:
        """Whether the stream ends with it."""
        return self.kind == SESSION_ENDED


class Story:
    """A session as it was told. Every transition is told once, in the order of its kernel's log;
    the bytes of a pull never fall.

    With the id of an event of this session the transitions since then are told again, after the
    present state.
    """

    def __init__(self, view: SessionView, last_event_id: str | None = None) -> None:
        self._furthest: dict[tuple[str, str | None, str | None], int] = {}
        self._view = self._never_falling(view)
        numbers = {step.number for kernel in view.kernels for step in kernel.transitions}
        seen = _number(last_event_id)
        self._told = seen if seen in numbers else max(numbers, default=0)
        self._steps = {
            kernel.row.id: max(
                (s.number for s in kernel.transitions if s.number <= self._told), default=0
            )
            for kernel in view.kernels
        }

    @property
    def ended(self) -> bool:
        """Whether the session has ended."""
        return self._view.ended_at is not None

    @property
    def pulling(self) -> bool:
        """Whether an image may be on its way."""
        return bool(self.attempts)

    @property
    def attempts(self) -> list[str]:
        """The attempts that are under way, maybe."""
        return self._view.attempts

    def begin(self) -> Iterator[SessionEvent]:
        """The present state, and what is new since the last event that was seen."""
        yield self._event(SESSION_UPDATED, self._view.to_json())
        yield from self._transitions()
        yield from self._end()

    def read(self, view: SessionView) -> Iterator[SessionEvent]:
        """Look again: what happened since."""
        before, self._view = self._view, self._never_falling(view)
        told = list(self._transitions())
        moved = {event.data["kernelId"] for event in told}
        yield from told
        for kernel, was in zip(self._view.kernels, before.kernels, strict=True):
            if kernel.row.id not in moved and _shown(kernel) != _shown(was):
                yield self._kernel_event(kernel)
        if not self.ended and _stands(self._view) != _stands(before):
            shown = {**self._view.to_json(), "kernels": [_shown(k) for k in self._view.kernels]}
            yield self._event(SESSION_UPDATED, shown)
        yield from self._end()

    def hear(self, pulls: Mapping[str, PullFigures]) -> Iterator[SessionEvent]:
        """How far the pulls are now, by attempt."""
        return self.read(self._view.with_pulls(pulls))

    def _transitions(self) -> Iterator[SessionEvent]:
        news = [
            (step, kernel)
            for kernel in self._view.kernels
            for step in kernel.transitions
            if step.number > self._steps[kernel.row.id]
        ]
        for step, kernel in sorted(news, key=lambda new: new[0].number):
            self._steps[kernel.row.id] = step.number
            self._told = max(self._told, step.number)
            yield self._kernel_event(kernel, step)

    def _end(self) -> Iterator[SessionEvent]:
        if self.ended:
            yield self._event(SESSION_ENDED, self._view.to_json())

    def _kernel_event(self, kernel: KernelView, step: Transition | None = None) -> SessionEvent:
        shown = _shown(kernel)
        # of states it has left already nothing more is known
        present = step is None or step == kernel.transitions[-1]
        return self._event(
            KERNEL_UPDATED,
            {
                "sessionId": self._view.id,
                "kernelId": kernel.row.id,
                "status": step.target if step else shown["status"],
                "statusInfo": shown["statusInfo"] if present else "",
                "statusData": shown["statusData"] if present else None,
                "transition": transition_to_json(step) if step else None,
                "pull": shown["pull"] if present else None,
                "kernel": shown,
            },
        )

    def _never_falling(self, view: SessionView) -> SessionView:
        """The view with bytes as far as they were ever told of one image on one agent: a new
        attempt begins with what is there already."""
        return replace(view, kernels=[self._furthest_of(kernel) for kernel in view.kernels])

    def _furthest_of(self, kernel: KernelView) -> KernelView:
        if kernel.pull is None:
            return kernel
        key = (kernel.row.id, kernel.pulled_to, kernel.row.root_digest)
        done = self._furthest[key] = max(kernel.pull.bytes_done, self._furthest.get(key, 0))
        return replace(kernel, pull=replace(kernel.pull, bytes_done=done))

    def _event(self, kind: str, data: Mapping[str, Any]) -> SessionEvent:
        return SessionEvent(str(self._told), kind, data)


def _shown(kernel: KernelView) -> dict[str, Any]:
    shown = kernel.to_json()
    del shown["transitions"]
    return shown


def _stands(view: SessionView) -> tuple[KernelStatus, str | Reason]:
    return view.status, view.status_info


def _number(event_id: str | None) -> int | None:
    usable = event_id is not None and event_id.isascii() and event_id.isdecimal()
    return int(event_id) if usable and event_id else None
