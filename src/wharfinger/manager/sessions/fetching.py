"""Having the image of a bound kernel fetched, within the limits of pulls."""

from typing import Any

from sqlalchemy import Connection

from wharfinger.domain.references import Reference
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.pulls import attempts
from wharfinger.manager.pulls.attempts import PullPlace
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.kernels import Kernel


def place(kernel: Kernel) -> PullPlace:
    """The place its pull takes: to be taken before `fetch`, unless that only looks."""
    agent_id, digest = _bound(kernel)
    reference = Reference.parse(kernel.reference)
    return PullPlace(agent_id, reference.registry, reference.pinned(digest))


def fetch(
    conn: Connection, kernel: Kernel, *, reason: str, by: str, look_only: bool = False, **moved: Any
) -> bool:
    """Make a new attempt the kernel's, which is PREPARING with it; `moved` as `kernels.move` takes
    it."""
    agent_id, digest = _bound(kernel)
    attempt_id = attempts.create(
        conn,
        kernel_id=kernel.id,
        agent_id=agent_id,
        reference=Reference.parse(kernel.reference),
        root_digest=digest,
        look_only=look_only,
        by=by,
    )
    return kernels.move(
        conn,
        kernel,
        KernelStatus.PREPARING,
        reason=reason,
        by=by,
        attempt_id=attempt_id,
        attempts=kernel.attempts + 1,
        **moved,
    )


def _bound(kernel: Kernel) -> tuple[str, str]:
    """Its agent and its root digest."""
    assert kernel.agent_id is not None, "what is fetched is for an agent"
    assert kernel.root_digest is not None, "what is bound is resolved"
    return kernel.agent_id, kernel.root_digest
