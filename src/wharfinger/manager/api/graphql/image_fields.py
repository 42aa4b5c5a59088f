"""The root fields about the catalogue, plans, grants and the audit log."""

from typing import Final

import strawberry

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.api.graphql.connections import Connection, key_of, page, page_size
from wharfinger.manager.api.graphql.context import Info
from wharfinger.manager.api.graphql.images import (
    AuditRecord,
    CatalogueImage,
    ImageGrants,
    ImageProtection,
    PreloadPlanItem,
    PreloadPlanned,
    UnloadPlanItem,
    UnloadPlanned,
)
from wharfinger.manager.api.graphql.people import User
from wharfinger.manager.api.graphql.results import (
    ChangeUserGroupsResult,
    ForgetImageResult,
    GrantImagesResult,
    PreloadPlanResult,
    ProtectImageResult,
    RegisterImageResult,
    RescanImagesResult,
    UnloadPlanResult,
)
from wharfinger.manager.api.graphql.types import BackgroundTaskStarted

_LONGEST_ID: Final = 18
"""Digits of the largest id a database takes."""


@strawberry.type
class ImageQueries:
    """What can be asked about images before and after the deed."""

    @strawberry.field
    async def preload_plan(
        self, info: Info, target_agents: list[str], references: list[str]
    ) -> PreloadPlanResult:
        """What a preload would do, agent by agent. Nothing is changed."""
        plans = await info.context.services.images.preload_plan(target_agents, references)
        return PreloadPlanned(items=[PreloadPlanItem.of(plan) for plan in plans])

    @strawberry.field
    async def unload_plan(
        self, info: Info, target_agents: list[str], references: list[str]
    ) -> UnloadPlanResult:
        """What an unload would do, agent by agent. Nothing is changed."""
        plans = await info.context.services.images.unload_plan(target_agents, references)
        return UnloadPlanned(items=[UnloadPlanItem.of(plan) for plan in plans])

    @strawberry.field
    async def image_grants(self, info: Info) -> list[ImageGrants]:
        """The paths of images that are for some alone."""
        return [ImageGrants.of(each) for each in await info.context.services.registries.grants()]

    @strawberry.field
    async def audit_entries(
        self,
        info: Info,
        first: int = 50,
        after: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
    ) -> Connection[AuditRecord]:
        """Who did what, newest first. `actor` is a name, `action` a word or its beginning (image),
        `target` a part of the text."""
        size = page_size(first)
        entries = await info.context.services.access.audit(
            actor=actor, action=action, target=target, after=_entry_id(after), limit=size + 1
        )
        return page(entries, size, AuditRecord.of, lambda entry: str(entry.id))


@strawberry.type
class ImageMutations:
    """What can be done to the catalogue, and to whom it is for."""

    @strawberry.mutation
    async def register_image(self, info: Info, reference: str) -> RegisterImageResult:
        """Let users ask for an image; it means what its registry says now."""
        catalogue, who = info.context.services.catalogue, info.context.principal
        return CatalogueImage.of(await catalogue.register(reference, who=who))

    @strawberry.mutation
    async def forget_image(self, info: Info, reference: str) -> ForgetImageResult:
        """Let users no longer ask for an image. No rescan brings it back."""
        catalogue, who = info.context.services.catalogue, info.context.principal
        return CatalogueImage.of(await catalogue.forget(reference, who=who))

    @strawberry.mutation
    async def protect_image(self, info: Info, reference: str) -> ProtectImageResult:
        """Keep an image from being unloaded, on every agent."""
        catalogue, who = info.context.services.catalogue, info.context.principal
        return ImageProtection(
            reference=await catalogue.protect(reference, who=who), protected=True
        )

    @strawberry.mutation
    async def unprotect_image(self, info: Info, reference: str) -> ProtectImageResult:
        """Let an image be unloaded again."""
        catalogue, who = info.context.services.catalogue, info.context.principal
        return ImageProtection(
            reference=await catalogue.unprotect(reference, who=who), protected=False
        )

    @strawberry.mutation
    async def rescan_images(
        self, info: Info, registry: str | None = None, wait: bool = False
    ) -> RescanImagesResult:
        """Read the catalogue anew from one registry, or from all. With `wait` it is queued behind
        the downloads under way."""
        catalogue, who = info.context.services.catalogue, info.context.principal
        task_id = await catalogue.rescan(registry, wait=wait, who=who)
        return BackgroundTaskStarted(task_id=strawberry.ID(task_id))

    @strawberry.mutation
    async def grant_images(
        self,
        info: Info,
        path: str,
        users: list[str] | None = None,
        groups: list[str] | None = None,
    ) -> GrantImagesResult:
        """Limit the images below a path (`host[:port]` or `host/name…`) to users and groups."""
        registries, who = info.context.services.registries, info.context.principal
        return ImageGrants.of(await registries.grant(path, users or (), groups or (), who=who))

    @strawberry.mutation
    async def revoke_images(
        self,
        info: Info,
        path: str,
        users: list[str] | None = None,
        groups: list[str] | None = None,
    ) -> GrantImagesResult:
        """Take a path from users and groups; with nobody named it is open to all again."""
        registries, who = info.context.services.registries, info.context.principal
        return ImageGrants.of(await registries.revoke(path, users or (), groups or (), who=who))

    @strawberry.mutation
    async def change_user_groups(
        self,
        info: Info,
        name: str,
        add: list[str] | None = None,
        remove: list[str] | None = None,
    ) -> ChangeUserGroupsResult:
        """Put a user into groups, and take them out of others."""
        access, who = info.context.services.access, info.context.principal
        return User.of(await access.change_groups(name, add or (), remove or (), who=who))


def _entry_id(cursor: str | None) -> int | None:
    key = key_of(cursor)
    if key is None:
        return None
    if not key.isdecimal() or len(key) > _LONGEST_ID:
        raise InvalidRequest("after is no cursor from here", after=(cursor or "")[:200])
    return int(key)
