"""What the list of our containers in an agent's report means for kernels.

The list is the truth about the host, however often it is told: a report that brings nothing new
costs three small queries.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select, update

from wharfinger.contracts.ingest import Report
from wharfinger.contracts.rpc import KernelContainer
from wharfinger.domain.sessions import WITH_CONTAINER
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions import kernels as rows
from wharfinger.manager.sessions import leftovers, observing
from wharfinger.manager.storage.tables import agents, kernels

_MISSED_BY: Final = 2
"""Reports begun after a container was accepted that must not show it before it has vanished."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A kernel that may have a container on this agent."""

    kernel_id: str
    status: KernelStatus
    accepted_begun: int | None


def read_containers(conn: Connection, agent_id: str, report: Report) -> bool:
    """Bring kernels and leftovers in line with a report (a `fleet.service.ReportReader`).

    Nothing follows while the engine does not say what it has, or from a report that is older than
    one already taken in.
    """
    begun = conn.scalar(select(agents.c.reports_begun).where(agents.c.id == agent_id)) or 0
    if report.begun < begun:
        return False
    claims = _count_anew(conn, _claims(conn, agent_id), begun)
    if report.containers is None:
        return False
    listed = {container.kernel_id: container for container in report.containers}
    changed = False
    for claim in claims:
        container = listed.get(claim.kernel_id)
        if container is None and claim.kernel_id in report.kernels_in_hand:
            continue
        changed |= _take_in(conn, claim, container, report.begun, by=f"agent {agent_id}")
    claimed = {claim.kernel_id for claim in claims}
    unclaimed = {
        kernel_id: container.container_id
        for kernel_id, container in listed.items()
        if kernel_id not in claimed
    }
    return leftovers.note_listed(conn, agent_id, unclaimed) or changed


def _claims(conn: Connection, agent_id: str) -> list[_Claim]:
    found = conn.execute(
        select(kernels.c.id, kernels.c.status, kernels.c.accepted_begun)
        .where(kernels.c.agent_id == agent_id, kernels.c.status.in_(WITH_CONTAINER))
        .order_by(kernels.c.id)
    )
    return [_Claim(row.id, KernelStatus(row.status), row.accepted_begun) for row in found]


def _count_anew(conn: Connection, claims: Collection[_Claim], begun: int) -> list[_Claim]:
    """A new incarnation counts its reports from the beginning: what an older one accepted is
    missed only by reports that this one begins from now on."""
    older = {
        claim.kernel_id
        for claim in claims
        if claim.accepted_begun is not None and claim.accepted_begun > begun
    }
    if older:
        conn.execute(update(kernels).where(kernels.c.id.in_(older)).values(accepted_begun=begun))
    return [
        _Claim(claim.kernel_id, claim.status, begun) if claim.kernel_id in older else claim
        for claim in claims
    ]


def _take_in(
    conn: Connection, claim: _Claim, container: KernelContainer | None, begun: int, *, by: str
) -> bool:
    match claim.status, container:
        case KernelStatus.CREATING, KernelContainer() if container.began:
            return any(
                observing.started(conn, kernel, container, by=by)
                for kernel in _present(conn, claim)
            )
        case KernelStatus.RUNNING, KernelContainer(ended=True):
            return any(
                observing.ended(conn, kernel, container, by=by) for kernel in _present(conn, claim)
            )
        case KernelStatus.RUNNING, None if begun >= (claim.accepted_begun or 0) + _MISSED_BY:
            return any(observing.vanished(conn, kernel, by=by) for kernel in _present(conn, claim))
        case _:
            return False


def _present(conn: Connection, claim: _Claim) -> list[rows.Kernel]:
    """The kernel, unless what was read before it in this report has moved it."""
    return rows.where(
        conn, kernels.c.id == claim.kernel_id, kernels.c.status == claim.status, lock=True
    )
