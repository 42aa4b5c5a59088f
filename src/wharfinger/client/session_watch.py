"""The events of a session."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote

from wharfinger.client.errors import NotAManager
from wharfinger.client.http import Client
from wharfinger.client.resume import OnOutage, resumed
from wharfinger.client.shapes import Kernel, Session, Transition
from wharfinger.client.sse import Event
from wharfinger.domain.sessions import session_status
from wharfinger.domain.states import KernelStatus

SESSION_UPDATED: Final = "session_updated"
KERNEL_UPDATED: Final = "kernel_updated"
SESSION_ENDED: Final = "session_ended"
_KINDS: Final = frozenset({SESSION_UPDATED, KERNEL_UPDATED, SESSION_ENDED})


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """What a watcher is told: a whole session, or a kernel with the transition it made, if any."""

    kind: str
    session: Session | None = None
    kernel: Kernel | None = None
    transition: Transition | None = None

    @property
    def last(self) -> bool:
        """Whether the session has ended."""
        return self.kind == SESSION_ENDED

    @classmethod
    def parse(cls, event: Event) -> "SessionEvent":
        """From an event of the stream; raises `ValueError` for one that is not of a session."""
        data: Any = json.loads(event.data)
        match event.name, data:
            case "kernel_updated", {"kernel": {"id": str(), "status": str(status)} as kernel}:
                KernelStatus(status)
                told = {"pull": data.get("pull"), "transitions": [], **kernel}
                return cls(event.name, kernel=cast("Kernel", told), transition=data["transition"])
            case "session_updated" | "session_ended", {"id": str(), "kernels": [*kernels]}:
                for kernel in kernels:
                    KernelStatus(kernel["status"])
                return cls(event.name, session=cast("Session", data))
            case _:
                raise ValueError(f"the data of {event.name} is not of a session")

    def apply(self, session: Session) -> Session:
        """The session as it is after this event. Transitions that were known stay known."""
        logs = {kernel["id"]: kernel["transitions"] for kernel in session["kernels"]}
        if self.session is not None:
            kernels = [
                _with_log(each, logs.get(each["id"], [])) for each in self.session["kernels"]
            ]
            return {**self.session, "kernels": kernels}
        assert self.kernel is not None, "an event is of a session or of a kernel"
        news = [self.transition] if self.transition else []
        changed = _with_log(self.kernel, _joined(logs.get(self.kernel["id"], []), news))
        return _with_kernel(session, changed)


async def watch_session(
    client: Client, session_id: str, *, on_outage: OnOutage | None = None
) -> AsyncGenerator[SessionEvent]:
    """The events of a session until its last one: see `resumed`, whose errors it raises.

    The first one of every contact is a whole session.
    """
    path = f"/sessions/{quote(session_id, safe='')}/events"
    async with aclosing(
        resumed(client, path, {}, last={SESSION_ENDED}, on_outage=on_outage)
    ) as events:
        async for event in events:
            if event.name in _KINDS:
                yield _parsed(client, event)


def _parsed(client: Client, event: Event) -> SessionEvent:
    try:
        return SessionEvent.parse(event)
    except (ValueError, KeyError, TypeError) as error:
        raise NotAManager(client.connection.url, f"its event cannot be read: {error}") from error


def _with_kernel(session: Session, changed: Kernel) -> Session:
    kernels = [changed if each["id"] == changed["id"] else each for each in session["kernels"]]
    telling: Any = next((each for each in kernels if each["statusInfo"]), {})
    return {
        **session,
        "kernels": kernels,
        "status": session_status([KernelStatus(each["status"]) for each in kernels]).value,
        "statusInfo": telling.get("statusInfo", ""),
        "statusData": telling.get("statusData"),
    }


def _with_log(kernel: Kernel, known: Sequence[Transition]) -> Kernel:
    return {**kernel, "transitions": _joined(known, kernel.get("transitions", []))}


def _joined(known: Sequence[Transition], news: Sequence[Transition]) -> list[Transition]:
    return [*known, *(each for each in news if each not in known)]
