"""The kernels that are bound to an image on an agent: it is not to be taken from under them."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from wharfinger.domain.gate import ImageKeys
from wharfinger.domain.sessions import BOUND, WITH_CONTAINER
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.storage.tables import kernels, sessions

_HOLDING: Final = (*BOUND, *WITH_CONTAINER)


@dataclass(frozen=True, slots=True)
class BoundKernel:
    """One kernel on an agent, what it is known to run there, and the name of its session."""

    id: str
    agent_id: str
    session: str
    status: KernelStatus
    keys: ImageKeys

    def __str__(self) -> str:
        return f"kernel {self.id} of session {self.session} ({self.status})"


def bound(conn: Connection, agent_ids: Collection[str]) -> list[BoundKernel]:
    """All that are bound to these agents, by id. Under the agents' locks no other joins them."""
    rows = conn.execute(
        select(
            kernels.c.id,
            kernels.c.agent_id,
            sessions.c.name,
            kernels.c.status,
            kernels.c.reference,
            kernels.c.root_digest,
            kernels.c.image_id,
        )
        .join(sessions, sessions.c.id == kernels.c.session_id)
        .where(kernels.c.agent_id.in_(agent_ids), kernels.c.status.in_(_HOLDING))
        .order_by(kernels.c.id)
    )
    return [
        BoundKernel(
            row.id,
            row.agent_id,
            row.name,
            KernelStatus(row.status),
            ImageKeys.of(row.reference, row.root_digest, row.image_id),
        )
        for row in rows
    ]
