"""What a preload or an unload would do, found out without doing any of it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sqlalchemy import Connection

from wharfinger.contracts.rpc import (
    PullOrder,
    PullPolicy,
    PullSurvey,
    RemovalOrder,
    RemovalSurvey,
)
from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.disk import shortfall
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import Reference
from wharfinger.domain.sizes import size
from wharfinger.domain.states import AgentStatus
from wharfinger.manager.fleet.calls import AgentCalls, AgentUnreachable
from wharfinger.manager.fleet.views import AgentView
from wharfinger.manager.gate import kernels, preparations
from wharfinger.manager.gate.kernels import BoundKernel
from wharfinger.manager.gate.preparations import Preparations
from wharfinger.manager.gate.protection import Protection
from wharfinger.manager.images.obstacles import away, not_for, silent
from wharfinger.manager.images.plans import (
    PlannedPreload,
    PlannedUnload,
    PreloadPlan,
    UnloadPlan,
)
from wharfinger.manager.images.surveyed import foreign, keys, obstacle
from wharfinger.manager.pulls import orders
from wharfinger.manager.pulls.evidence import lacking
from wharfinger.manager.scheduler.picture import Account, Picture
from wharfinger.manager.scheduler.predicates import Ask, cause_against
from wharfinger.manager.scheduler.reading import read_picture
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.images import ResolvedImage

_ASKED_AT_ONCE: Final = 32
_SECONDS: Final = 15.0
"""How long an agent may take to answer."""

P = TypeVar("P", PreloadPlan, UnloadPlan)


async def _every(
    agents: Sequence[AgentView], ask: Callable[[AgentView], Awaitable[Sequence[P]]]
) -> list[P]:
    """The plans of all agents, in their order; some are asked at a time."""
    few = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def one(agent: AgentView) -> Sequence[P]:
        async with few:
            return await ask(agent)

    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(one(agent)) for agent in agents]
    return [plan for each in asked for plan in each.result()]


@dataclass(frozen=True, slots=True)
class PreloadPlanning:
    """Plans preloads. `disk_margin` is in bytes."""

    calls: AgentCalls
    disk_margin: int

    async def plan(
        self, agents: Sequence[AgentView], images: Sequence[ResolvedImage]
    ) -> Sequence[PreloadPlan]:
        """One plan per agent and image."""

        async def ask(agent: AgentView) -> Sequence[PreloadPlan]:
            return await self._of_agent(agent, images)

        return await _every(agents, ask)

    async def _of_agent(
        self, agent: AgentView, images: Sequence[ResolvedImage]
    ) -> Sequence[PreloadPlan]:
        if agent.status is not AgentStatus.UP:
            return [_cannot(agent, image, away(agent)) for image in images]
        wanted = {
            f"{place}": (image, order)
            for place, image in enumerate(images)
            if (order := self._order(f"{place}", agent, image)) is not None
        }
        try:
            reply = await self.calls.survey_pulls(
                agent.id, [order for _, order in wanted.values()], deadline=_SECONDS
            )
        except AgentUnreachable as error:
            return [_cannot(agent, image, silent(agent.id, error.message)) for image in images]
        surveys = {survey.attempt_id: survey for survey in reply.surveys}
        return [
            self._judge(agent, image, surveys.get(f"{place}"), reply.disk)
            for place, image in enumerate(images)
        ]

    def _order(self, key: str, agent: AgentView, image: ResolvedImage) -> PullOrder | None:
        variant = image.for_platform(agent.platform)
        if variant is None:
            return None
        return PullOrder(
            attempt_id=key,
            reference=str(image.reference),
            root_digest=image.root_digest,
            layers=orders.layers(variant),
            diff_ids=variant.diff_ids,
            disk_margin=self.disk_margin,
            policy=PullPolicy.CHECK,
        )

    def _judge(
        self,
        agent: AgentView,
        image: ResolvedImage,
        survey: PullSurvey | None,
        disk: DiskSpace | None,
    ) -> PreloadPlan:
        variant = image.for_platform(agent.platform)
        if variant is None:
            return _cannot(agent, image, not_for(agent, image))
        if survey is None:
            return _cannot(agent, image, _UNANSWERED)
        if survey.failure is not None:
            return _cannot(agent, image, survey.failure.failure())
        action, failure = PlannedPreload.PULL, None
        if survey.evidence is not None and not lacking(
            survey.evidence, image.reference, image.root_digest, agent.platform, tag_matters=True
        ):
            action = PlannedPreload.SKIP
        elif failure := self._no_space(survey, disk):
            action = PlannedPreload.FAIL
        return PreloadPlan(
            agent_id=agent.id,
            reference=str(image.reference),
            root_digest=image.root_digest,
            action=action,
            failure=failure,
            bytes_total=variant.size,
            bytes_missing=survey.bytes_missing,
            bytes_needed=survey.bytes_needed,
            layers_known=survey.layers_known,
            disk_free=disk.free if disk else None,
            disk_total=disk.total if disk else None,
        )

    def _no_space(self, survey: PullSurvey, disk: DiskSpace | None) -> Failure | None:
        needs, margin = survey.bytes_needed, self.disk_margin
        if disk is None or not needs or not shortfall(disk.free, needs, margin):
            return None
        return Failure(
            FailureClass.NO_SPACE,
            f"needs at least {size(needs)}, {size(disk.free)} are free of {size(disk.total)} and "
            f"{size(margin)} is to stay free: remove images or give the disk more room",
        )


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the manager knows of the agents, in one snapshot."""

    kernels: Sequence[BoundKernel]
    preparations: Preparations
    protection: Protection
    picture: Picture


@dataclass(frozen=True, slots=True)
class UnloadPlanning:
    """Plans unloads. `protected` are the settings' patterns."""

    storage: Storage
    calls: AgentCalls
    protected: Sequence[str]

    async def plan(
        self, agents: Sequence[AgentView], references: Sequence[Reference]
    ) -> Sequence[UnloadPlan]:
        """One plan per agent and reference."""
        targeted = frozenset(agent.id for agent in agents)
        ground = await self.storage.read(_read, targeted, self.protected)

        async def ask(agent: AgentView) -> Sequence[UnloadPlan]:
            return await self._of_agent(agent, references, ground, targeted)

        return await _every(agents, ask)

    async def _of_agent(
        self,
        agent: AgentView,
        references: Sequence[Reference],
        ground: _Ground,
        targeted: frozenset[str],
    ) -> Sequence[UnloadPlan]:
        if agent.status is not AgentStatus.UP:
            return [_stays(agent, reference, away(agent)) for reference in references]
        asked = [RemovalOrder(removal_id=f"{each}", reference=f"{each}") for each in references]
        try:
            answers = await self.calls.survey_removals(
                agent.id, asked, want_bytes=True, deadline=_SECONDS
            )
        except AgentUnreachable as error:
            return [
                _stays(agent, reference, silent(agent.id, error.message))
                for reference in references
            ]
        surveys = {survey.removal_id: survey for survey in answers}
        return [
            _judge(agent, reference, surveys.get(f"{reference}"), ground, targeted)
            for reference in references
        ]


def _read(conn: Connection, agent_ids: frozenset[str], protected: Sequence[str]) -> _Ground:
    return _Ground(
        kernels.bound(conn, agent_ids),
        preparations.on_agents(conn, agent_ids),
        Protection(conn, protected),
        read_picture(conn),
    )


def _judge(
    agent: AgentView,
    reference: Reference,
    survey: RemovalSurvey | None,
    ground: _Ground,
    targeted: frozenset[str],
) -> UnloadPlan:
    if survey is None:
        return _stays(agent, reference, _UNANSWERED)
    if survey.failure is not None:
        return _stays(agent, reference, survey.failure.failure())
    image = keys(reference, survey)
    bound = [k for k in ground.kernels if k.agent_id == agent.id and k.keys.meets(image)]
    failure = obstacle(reference, survey, bound, ground.protection)
    under_way = ground.preparations.against(agent.id, image)
    if failure is not None:
        action = PlannedUnload.FAIL
    elif survey.image_id is None:
        action = PlannedUnload.SKIP
    else:
        action = PlannedUnload.UNTAG if survey.kept_by else PlannedUnload.REMOVE
    return UnloadPlan(
        agent_id=agent.id,
        reference=str(reference),
        action=action,
        failure=failure,
        image_id=survey.image_id,
        going=survey.going,
        kept_by=survey.kept_by,
        kernels=[kernel.id for kernel in bound],
        containers=[u.name or u.container_id for u in foreign(survey.users, bound)],
        queued=_waiting_for(agent.id, survey.root_digests, ground.picture, targeted),
        waits_for=under_way.task_id if under_way else None,
        bytes_freed=survey.bytes_freed,
    )


def _waiting_for(
    agent_id: str, digests: Sequence[str], picture: Picture, targeted: frozenset[str]
) -> list[str]:
    """The sessions in the queue that could run on this agent with the image it holds, and on no
    other that holds it and keeps it."""
    found = []
    for session in picture.sessions:
        groups = picture.accounts.get(session.owner_id, Account()).scaling_groups
        asks = [
            Ask(
                kernel.slots,
                kernel.reference,
                kernel.root_digest,
                session.scaling_group,
                groups,
            )
            for kernel in session.kernels
            if kernel.root_digest is not None and kernel.root_digest in digests
        ]
        for ask in asks:
            able = {
                host.id
                for host in picture.hosts
                if cause_against(picture, host, ask) is None
                and (host.id in picture.holders.get(ask.root_digest, ()) or host.id == agent_id)
            }
            if agent_id in able and able <= targeted:
                found.append(session.id)
                break
    return found


_UNANSWERED = Failure(FailureClass.INTERNAL, "the agent left this out of its answer")


def _cannot(agent: AgentView, image: ResolvedImage, failure: Failure) -> PreloadPlan:
    variant = image.for_platform(agent.platform)
    return PreloadPlan(
        agent_id=agent.id,
        reference=str(image.reference),
        root_digest=image.root_digest,
        action=PlannedPreload.FAIL,
        failure=failure,
        bytes_total=variant.size if variant else 0,
    )


def _stays(agent: AgentView, reference: Reference, failure: Failure) -> UnloadPlan:
    return UnloadPlan(agent.id, str(reference), PlannedUnload.FAIL, failure)
