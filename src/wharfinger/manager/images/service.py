"""Preload and unload as asked for: checked whole before anything exists, then a background task."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import Connection

from wharfinger.domain.errors import InvalidRequest, NoAgents, WharfingerError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.domain.selectors import select as select_agents
from wharfinger.domain.states import AgentStatus
from wharfinger.manager.access import audit
from wharfinger.manager.access.audit import Action
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.background.service import BackgroundTasks
from wharfinger.manager.catalogue import resolved as resolved_images
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.fleet import agents
from wharfinger.manager.fleet.views import AgentView
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.images.listing import PRELOAD, UNLOAD, ImageView, list_images
from wharfinger.manager.images.obstacles import away, not_for
from wharfinger.manager.images.planning import PreloadPlanning, UnloadPlanning
from wharfinger.manager.images.plans import PreloadPlan, UnloadPlan
from wharfinger.manager.images.preload import Preload
from wharfinger.manager.images.unload import Unload
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.images import ResolvedImage

DOWNLOAD: Final = "download"
"""The category of preloads: what they wait for, and what waits for them."""

_RESOLVED_AT_ONCE: Final = 8


class Images:
    """What people do with images."""

    def __init__(
        self,
        storage: Storage,
        tasks: BackgroundTasks,
        registries: Registries,
        client: RegistryClient,
        preload: Preload,
        unload: Unload,
    ) -> None:
        self._storage = storage
        self._tasks = tasks
        self._registries = registries
        self._client = client
        self._preloads = PreloadPlanning(preload.calls, preload.limits.disk_margin)
        self._unloads = UnloadPlanning(storage, unload.calls, unload.protected_references)
        tasks.register(PRELOAD, preload, rows.as_json, DOWNLOAD)
        tasks.register(UNLOAD, unload, rows.as_json)

    async def preload(
        self, targets: Sequence[str], references: Sequence[str], *, who: Principal
    ) -> str:
        """Start a preload; the task's id.

        Every reference is resolved once, now; one that cannot be refuses the whole request, so
        that nothing is half begun. Raises `InvalidReference`, `UnknownSelector`, `NoAgents`,
        `UnknownRegistry`, or `FailureError` with the class the registry's answer has.
        """
        chosen, resolved = await self._look_into(targets, references)
        task_id = await self._storage.write(
            _insert_preload, self._tasks, {agent.id for agent in chosen}, resolved, who
        )
        await self._tasks.launch(task_id)
        return task_id

    async def preload_plan(
        self, targets: Sequence[str], references: Sequence[str]
    ) -> Sequence[PreloadPlan]:
        """What a preload would do now, by agent and reference. Raises as `preload` does."""
        return await self._preloads.plan(*await self._look_into(targets, references))

    async def unload(
        self, targets: Sequence[str], references: Sequence[str], *, who: Principal
    ) -> str:
        """Start an unload; the task's id. Raises as `preload` does, but asks no registry."""
        task_id = await self._storage.write(
            _insert_unload, self._tasks, _given(targets), _parse(references), who
        )
        await self._tasks.launch(task_id)
        return task_id

    async def unload_plan(
        self, targets: Sequence[str], references: Sequence[str]
    ) -> Sequence[UnloadPlan]:
        """What an unload would do now, by agent and reference. Raises as `unload` does."""
        wanted = _parse(references)
        return await self._unloads.plan(await self._choose(targets), wanted)

    async def list(
        self,
        *,
        who: Principal,
        reference: str | None = None,
        registry: str | None = None,
        statuses: Collection[str] = (),
        agent_id: str | None = None,
        after: str | None = None,
        limit: int,
    ) -> Sequence[ImageView]:
        """What is where, of what this user may use, sorted by `key`; see `list_images`."""
        return await self._storage.read(
            list_images,
            who,
            reference=reference,
            registry=registry,
            statuses=statuses,
            agent_id=agent_id,
            after=after,
            limit=limit,
            protected=self._unloads.protected,
        )

    async def _look_into(
        self, targets: Sequence[str], references: Sequence[str]
    ) -> tuple[Sequence[AgentView], Sequence[ResolvedImage]]:
        wanted = _parse(references)
        chosen = await self._choose(targets)
        return chosen, await self._resolve(wanted, {agent.platform for agent in chosen})

    async def _choose(self, targets: Sequence[str]) -> Sequence[AgentView]:
        return select_agents(_given(targets), await self._storage.read(agents.present))

    async def _resolve(
        self, references: Sequence[Reference], hosts: Collection[Platform]
    ) -> Sequence[ResolvedImage]:
        connections = [
            await self._registries.connection(reference.registry) for reference in references
        ]
        few = asyncio.Semaphore(_RESOLVED_AT_ONCE)

        async def one(index: int) -> ResolvedImage | WharfingerError:
            async with few:
                try:
                    return await self._client.resolve(references[index], connections[index], hosts)
                except WharfingerError as error:
                    return error

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one(index)) for index in range(len(references))]
        answers = [task.result() for task in asked]
        refused = {
            str(reference): answer
            for reference, answer in zip(references, answers, strict=True)
            if isinstance(answer, WharfingerError)
        }
        if refused:
            first = next(iter(refused.values()))
            first.detail["refused"] = {
                name: {"class": error.code, "message": error.message}
                for name, error in refused.items()
            }
            raise first
        return [answer for answer in answers if isinstance(answer, ResolvedImage)]


def _given(targets: Sequence[str]) -> Sequence[str]:
    if not targets:
        raise InvalidRequest(
            'no selector was given: use "*", "sgroup:<scaling group>" or an agent\'s id'
        )
    return targets


def _parse(references: Sequence[str]) -> list[Reference]:
    if not references:
        raise InvalidRequest("no image reference was given")
    return list(dict.fromkeys(map(Reference.parse, references)))


def _insert_preload(
    conn: Connection,
    tasks: BackgroundTasks,
    chosen: Collection[str],
    resolved: Sequence[ResolvedImage],
    who: Principal,
) -> str:
    here = [agent for agent in agents.present(conn) if agent.id in chosen]
    if not here:
        raise NoAgents("the agents chosen were retired meanwhile", selectors=sorted(chosen))
    new = [_preload_item(agent, image) for agent in here for image in resolved]
    task_id = tasks.insert_named(
        conn,
        name=PRELOAD,
        function=PRELOAD,
        arguments={"images": [image.to_json() for image in resolved]},
        owner_id=who.user_id,
        unit="bytes",
        total=sum(item.bytes_total for item in new),
    )
    rows.add(conn, task_id, new, by=f"user {who.name}")
    for image in resolved:
        resolved_images.mean(conn, image)
    _audit(conn, who, Action.IMAGE_PRELOAD, task_id, new)
    return task_id


def _preload_item(agent: AgentView, image: ResolvedImage) -> NewItem:
    variant = image.for_platform(agent.platform)
    failure = None
    if agent.status is AgentStatus.LOST:
        failure = away(agent)
    elif variant is None:
        failure = not_for(agent, image)
    return NewItem(
        agent_id=agent.id,
        reference=str(image.reference),
        root_digest=image.root_digest,
        bytes_total=variant.size if variant else 0,
        failure=failure,
    )


def _insert_unload(
    conn: Connection,
    tasks: BackgroundTasks,
    targets: Sequence[str],
    references: Sequence[Reference],
    who: Principal,
) -> str:
    chosen = select_agents(targets, agents.present(conn))
    new = [
        NewItem(
            agent_id=agent.id,
            reference=str(reference),
            failure=away(agent) if agent.status is AgentStatus.LOST else None,
        )
        for agent in chosen
        for reference in references
    ]
    task_id = tasks.insert_named(
        conn,
        name=UNLOAD,
        function=UNLOAD,
        arguments={},
        owner_id=who.user_id,
        unit="items",
        total=len(new),
    )
    rows.add(conn, task_id, new, by=f"user {who.name}")
    _audit(conn, who, Action.IMAGE_UNLOAD, task_id, new)
    return task_id


def _audit(
    conn: Connection, who: Principal, action: Action, task_id: str, new: Sequence[NewItem]
) -> None:
    """One entry per reference: people ask what happened to an image."""
    for reference in dict.fromkeys(item.reference for item in new):
        there = [item.agent_id for item in new if item.reference == reference]
        audit.note(conn, who, action, reference, taskId=task_id, agents=there)
