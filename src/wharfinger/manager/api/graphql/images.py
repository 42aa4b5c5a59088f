"""What would be done to images, whom they are for, and who did what."""

from datetime import datetime
from typing import Self

import strawberry
from strawberry.scalars import JSON

from wharfinger.domain.failures import Failure
from wharfinger.manager.access.audit import AuditEntry
from wharfinger.manager.access.grants import Grants
from wharfinger.manager.api.graphql.scalars import BigInt, big, json, maybe_big, moment
from wharfinger.manager.api.graphql.types import FailureReport, ImagePlatform
from wharfinger.manager.catalogue.entries import CatalogueEntry
from wharfinger.manager.images.plans import PreloadPlan, UnloadPlan


@strawberry.type(description="A reference in the catalogue, and what it means here")
class CatalogueImage:
    """`status` is known, missing (its registry no longer has it) or forgotten."""

    reference: str
    root_digest: str
    size: BigInt
    status: str
    registry: str
    platforms: list[ImagePlatform]
    labels: JSON

    @classmethod
    def of(cls, entry: CatalogueEntry) -> Self:
        """From the entry."""
        return cls(
            reference=entry.reference,
            root_digest=entry.root_digest,
            size=big(entry.size),
            status=entry.status.value,
            registry=entry.registry,
            platforms=[ImagePlatform.of(each) for each in entry.platforms],
            labels=json(dict(entry.labels)),
        )


@strawberry.type(description="What a preload would do on one agent")
class PreloadPlanItem:
    """`action` is pull, skip or fail. Bytes are null where they cannot be known."""

    agent_id: strawberry.ID
    reference: str
    root_digest: str
    action: str
    failure: FailureReport | None
    bytes_total: BigInt
    bytes_missing: BigInt | None
    bytes_needed: BigInt | None
    layers_known: bool
    disk_free: BigInt | None
    disk_free_after: BigInt | None
    disk_total: BigInt | None

    @classmethod
    def of(cls, plan: PreloadPlan) -> Self:
        """From the plan."""
        return cls(
            agent_id=strawberry.ID(plan.agent_id),
            reference=plan.reference,
            root_digest=plan.root_digest,
            action=plan.action.value,
            failure=_failure(plan.failure),
            bytes_total=big(plan.bytes_total),
            bytes_missing=maybe_big(plan.bytes_missing),
            bytes_needed=maybe_big(plan.bytes_needed),
            layers_known=plan.layers_known,
            disk_free=maybe_big(plan.disk_free),
            disk_free_after=maybe_big(plan.disk_free_after),
            disk_total=maybe_big(plan.disk_total),
        )


@strawberry.type(description="What a preload would do")
class PreloadPlanned:
    """One item for each agent and image."""

    items: list[PreloadPlanItem]


@strawberry.type(description="What an unload would do on one agent")
class UnloadPlanItem:
    """`action` is remove, untag (the name goes, the image stays), skip or fail. `kernels` and
    `containers` use it there; `queued` are sessions that wait for it and would find it on no other
    agent; `waitsFor` is a task that prepares it there now."""

    agent_id: strawberry.ID
    reference: str
    action: str
    failure: FailureReport | None
    image_id: str | None
    going: list[str]
    kept_by: list[str]
    kernels: list[str]
    containers: list[str]
    queued: list[str]
    waits_for: strawberry.ID | None
    bytes_freed: BigInt | None

    @classmethod
    def of(cls, plan: UnloadPlan) -> Self:
        """From the plan."""
        return cls(
            agent_id=strawberry.ID(plan.agent_id),
            reference=plan.reference,
            action=plan.action.value,
            failure=_failure(plan.failure),
            image_id=plan.image_id,
            going=list(plan.going),
            kept_by=list(plan.kept_by),
            kernels=list(plan.kernels),
            containers=list(plan.containers),
            queued=list(plan.queued),
            waits_for=None if plan.waits_for is None else strawberry.ID(plan.waits_for),
            bytes_freed=maybe_big(plan.bytes_freed),
        )


@strawberry.type(description="What an unload would do")
class UnloadPlanned:
    """One item for each agent and image."""

    items: list[UnloadPlanItem]


@strawberry.type(description="Whether a reference may be unloaded")
class ImageProtection:
    """No unload takes a protected one away."""

    reference: str
    protected: bool


@strawberry.type(description="Whom the images below a path are for")
class ImageGrants:
    """Names of users and of groups. With none the path is open to everybody."""

    path: str
    users: list[str]
    groups: list[str]

    @classmethod
    def of(cls, grants: Grants) -> Self:
        """From the grants."""
        return cls(path=grants.path, users=list(grants.users), groups=list(grants.groups))


@strawberry.type(description="Who did what to what, and when")
class AuditRecord:
    """`actor` is the user's name at that time."""

    id: strawberry.ID
    at: datetime
    actor: str
    action: str
    target: str
    detail: JSON

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        """From the entry."""
        return cls(
            id=strawberry.ID(str(entry.id)),
            at=moment(entry.at),
            actor=entry.actor,
            action=entry.action,
            target=entry.target,
            detail=json(dict(entry.detail)),
        )


def _failure(failure: Failure | None) -> FailureReport | None:
    return FailureReport.of(failure.to_json() if failure else None)
