"""Sessions and their kernels."""

from datetime import datetime
from typing import Self

import strawberry
from strawberry.scalars import JSON

from wharfinger.domain.slots import Slots
from wharfinger.manager.api.graphql.context import Info
from wharfinger.manager.api.graphql.scalars import BigInt, big, json, maybe_moment, moment
from wharfinger.manager.api.graphql.types import FailureReport, Transition
from wharfinger.manager.sessions.views import KernelView, PullFigures, SessionView


@strawberry.type(description="How far a kernel's image is")
class Pull:
    """Bytes are of the manifest's layers."""

    phase: str
    bytes_done: BigInt
    bytes_total: BigInt
    bytes_per_second: float | None
    eta_seconds: float | None

    @classmethod
    def of(cls, figures: PullFigures | None) -> Self | None:
        """From the figures, if there are any."""
        if figures is None:
            return None
        return cls(
            phase=figures.phase,
            bytes_done=big(figures.bytes_done),
            bytes_total=big(figures.bytes_total),
            bytes_per_second=figures.bytes_per_second,
            eta_seconds=figures.eta_seconds,
        )


@strawberry.type(description="What a kernel takes of its host")
class KernelSlots:
    """`cpu` is processors, `mem` bytes."""

    cpu: float
    mem: BigInt
    gpu: int

    @classmethod
    def of(cls, slots: Slots) -> Self:
        """From the slots."""
        return cls(cpu=slots.cpu / 1000, mem=big(slots.mem), gpu=slots.gpu)


@strawberry.type(description="One container of a session")
class Kernel:
    """An empty command is the image's own."""

    id: strawberry.ID
    agent_id: str | None
    reference: str
    root_digest: str | None
    status: str
    status_info: str
    status_data: JSON | None
    attempts: int
    exit_code: int | None
    failure: FailureReport | None
    slots: KernelSlots
    pull: Pull | None
    command: list[str]
    started_at: datetime | None
    ended_at: datetime | None
    view: strawberry.Private[KernelView]

    @classmethod
    def of(cls, view: KernelView) -> Self:
        """From the view."""
        row = view.row
        return cls(
            id=strawberry.ID(row.id),
            agent_id=row.agent_id,
            reference=row.reference,
            root_digest=row.root_digest,
            status=row.status.value,
            status_info=row.status_info.value if row.status_info else "",
            status_data=None if view.status_data is None else json(dict(view.status_data)),
            attempts=row.attempts,
            exit_code=row.exit_code,
            failure=FailureReport.of(row.failure.to_json() if row.failure else None),
            slots=KernelSlots.of(row.slots),
            pull=Pull.of(view.pull),
            command=list(row.command),
            started_at=maybe_moment(row.started_at),
            ended_at=maybe_moment(row.ended_at),
            view=view,
        )

    @strawberry.field
    async def transitions(self, info: Info) -> list[Transition]:
        """Its states so far, oldest first."""
        log = self.view.transitions
        return [Transition.of(step, await info.context.actor(step.by)) for step in log]


@strawberry.type(description="Kernels that start together and end together")
class Session:
    """`status` follows from its kernels; `statusInfo` and `statusData` are the first kernel's that
    has something to say."""

    id: strawberry.ID
    name: str
    owner: str
    scaling_group: str | None
    status: str
    status_info: str
    status_data: JSON | None
    created_at: datetime
    ended_at: datetime | None
    kernels: list[Kernel]

    @classmethod
    def of(cls, view: SessionView) -> Self:
        """From the view."""
        data = view.status_data
        return cls(
            id=strawberry.ID(view.id),
            name=view.name,
            owner=view.owner,
            scaling_group=view.scaling_group,
            status=view.status.value,
            status_info=view.status_info,
            status_data=None if data is None else json(dict(data)),
            created_at=moment(view.created_at),
            ended_at=maybe_moment(view.ended_at),
            kernels=[Kernel.of(kernel) for kernel in view.kernels],
        )
