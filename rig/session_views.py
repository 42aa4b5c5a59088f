"""Sessions as they are read, without a database."""

from collections.abc import Sequence
from typing import Any

from wharfinger.domain.slots import Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.views import KernelView, SessionView
from wharfinger.manager.storage.transitions import Transition


def kernel_row(kernel_id: str = "k1", session_id: str = "s1", **differing: Any) -> Kernel:
    """A kernel in the queue."""
    usual: dict[str, Any] = {
        "id": kernel_id,
        "session_id": session_id,
        "position": 0,
        "owner_id": "u1",
        "reference": "h:5000/app:v1",
        "registry": "h:5000",
        "root_digest": None,
        "slots": Slots(1000, 2**30),
        "command": ("/bin/app",),
        "environment": {},
        "status": KernelStatus.PENDING,
        "status_info": None,
        "status_data": None,
        "agent_id": None,
        "attempt_id": None,
        "image_id": None,
        "container_id": None,
        "attempts": 0,
        "tries": 0,
        "tried_on": None,
        "agents_failed": 0,
        "failing_since": None,
        "next_try_at": None,
        "due": True,
        "calls": 0,
        "accepted_begun": None,
        "ends_as": None,
        "exit_code": None,
        "failure": None,
        "changed_at": 0.0,
        "started_at": None,
        "ended_at": None,
    }
    return Kernel(**(usual | differing))


def steps(*numbered: tuple[int, str]) -> list[Transition]:
    """A log of transitions: (number, state)."""
    log: list[Transition] = []
    for number, state in numbered:
        source = log[-1].target if log else None
        log.append(Transition(source, state, float(number), "why", "who", number))
    return log


def session_view(
    session_id: str = "s1",
    owner_id: str = "u1",
    owner: str = "ann",
    kernels: Sequence[KernelView] | None = None,
    **differing: Any,
) -> SessionView:
    """A session of one kernel in the queue."""
    row = kernel_row(f"{session_id}-k1", session_id, owner_id=owner_id)
    usual: dict[str, Any] = {
        "id": session_id,
        "name": f"name of {session_id}",
        "owner_id": owner_id,
        "owner": owner,
        "scaling_group": None,
        "created_at": 1.0,
        "ended_at": None,
        "kernels": [KernelView(row, steps((1, "PENDING")))] if kernels is None else kernels,
    }
    return SessionView(**(usual | differing))
