"""The things of the schema, each made from the view it shows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

import strawberry
from strawberry.scalars import JSON

from wharfinger.contracts.ingest import EngineFacts
from wharfinger.manager.api.graphql.context import Info
from wharfinger.manager.api.graphql.scalars import (
    BigInt,
    big,
    json,
    maybe_big,
    maybe_moment,
    moment,
)
from wharfinger.manager.api.services import RegistryView, TransitionView
from wharfinger.manager.background.port import TaskView
from wharfinger.manager.fleet.views import AgentImageView, AgentView
from wharfinger.manager.images.listing import ImageView


@strawberry.type(description="One step in the life of a thing")
class Transition:
    """One row of the transition log."""

    from_: str | None = strawberry.field(name="from")
    to: str
    at: datetime
    reason: str
    by: str

    @classmethod
    def of(cls, view: TransitionView, by: str) -> Self:
        """From the view; `by` names who it was to a person."""
        return cls(from_=view.source, to=view.target, at=moment(view.at), reason=view.reason, by=by)


@strawberry.type(description="The container engine beside an agent")
class Engine:
    """All texts are empty while it has never answered."""

    kind: str
    version: str
    store: str
    problem: str = strawberry.field(description="Why it does not answer; empty while it does")

    @classmethod
    def of(cls, facts: EngineFacts) -> Self:
        """From what the agent said last."""
        return cls(kind=facts.kind, version=facts.version, store=facts.store, problem=facts.problem)


@strawberry.type(description="An image on an agent under one reference")
class AgentImage:
    """`size` is in bytes as the engine counts."""

    reference: str
    root_digest: str | None
    image_id: str
    size: BigInt

    @classmethod
    def of(cls, view: AgentImageView) -> Self:
        """From the view."""
        return cls(
            reference=view.reference,
            root_digest=view.root_digest,
            image_id=view.image_id,
            size=big(view.size),
        )


@strawberry.type(description="The file system that holds an engine's images")
class Disk:
    """In bytes; `free` is what may still be written."""

    free: BigInt
    total: BigInt

    @classmethod
    def of(cls, disk: Mapping[str, int] | None) -> Self | None:
        """From its JSON."""
        return None if disk is None else cls(free=big(disk["free"]), total=big(disk["total"]))


@strawberry.type(description="The process beside one container engine")
class Agent:
    """`images` and `transitions` are read when asked for. `occupied` is what the kernels bound to
    it take of its `slots`, `sessions` how many sessions these belong to."""

    id: strawberry.ID
    scaling_group: str
    status: str
    cordoned: bool
    os: str
    architecture: str
    variant: str
    version: str
    engine: Engine
    slots: JSON
    occupied: JSON
    sessions: int
    disk: Disk | None = strawberry.field(description="Null where the agent cannot see it")
    heard_seconds_ago: float

    @classmethod
    def of(cls, view: AgentView) -> Self:
        """From the view."""
        return cls(
            id=strawberry.ID(view.id),
            scaling_group=view.scaling_group,
            status=view.status.value,
            cordoned=view.cordoned,
            os=view.os,
            architecture=view.architecture,
            variant=view.variant,
            version=view.version,
            engine=Engine.of(view.engine),
            slots=json(dict(view.slots)),
            occupied=json(dict(view.occupied)),
            sessions=view.sessions,
            disk=Disk.of(view.disk),
            heard_seconds_ago=view.heard_seconds_ago,
        )

    @strawberry.field
    async def images(self, info: Info) -> list[AgentImage]:
        """What its engine holds, of what you may use."""
        fleet, who = info.context.services.fleet, info.context.principal
        views = await fleet.agent_images(self.id, who=who)
        return [AgentImage.of(view) for view in views]

    @strawberry.field
    async def transitions(self, info: Info) -> list[Transition]:
        """Its states so far, oldest first."""
        views = await info.context.services.fleet.transitions(self.id)
        return [Transition.of(view, await info.context.actor(view.by)) for view in views]


@strawberry.type(description="A platform an image is for")
class ImagePlatform:
    """`size` is in compressed bytes; null where nobody has looked."""

    os: str
    architecture: str
    variant: str
    size: BigInt | None

    @classmethod
    def of(cls, platform: Mapping[str, Any]) -> Self:
        """From its JSON."""
        return cls(
            os=platform["os"],
            architecture=platform["architecture"],
            variant=platform["variant"],
            size=maybe_big(platform["size"]),
        )


@strawberry.type(description="Where an image is")
class ImageAgent:
    """One agent that has to do with it."""

    agent_id: strawberry.ID
    status: str = strawberry.field(description="present, pulling or removing")
    size: BigInt = strawberry.field(
        description="Bytes as its engine counts; 0 while it is not there"
    )


@strawberry.type(description="An image known to the cluster")
class Image:
    """One reference at one root digest. `size` is in bytes. `status` is known, missing (its
    registry no longer has it), forgotten, or unregistered (on agents, but not in the catalogue).
    `bytesOnAgents` counts layers shared with other images too."""

    reference: str
    root_digest: str | None
    size: BigInt
    status: str
    registry: str
    protected: bool = strawberry.field(description="Whether no unload takes it away")
    platforms: list[ImagePlatform]
    labels: JSON
    bytes_on_agents: BigInt
    agents: list[ImageAgent]

    @classmethod
    def of(cls, view: ImageView) -> Self:
        """From the view."""
        return cls(
            reference=view.reference,
            root_digest=view.root_digest,
            size=big(view.size),
            status=view.status,
            registry=view.registry,
            protected=view.protected,
            platforms=[ImagePlatform.of(each) for each in view.platforms],
            labels=json(dict(view.labels)),
            bytes_on_agents=big(view.bytes_on_agents),
            agents=[
                ImageAgent(
                    agent_id=strawberry.ID(each.agent_id), status=each.status, size=big(each.size)
                )
                for each in view.agents
            ],
        )


@strawberry.type(description="Why a task or a part of it failed")
class FailureReport:
    """`class` is one of the failure classes; `detail` the raw text it came with."""

    class_: str = strawberry.field(name="class")
    message: str
    detail: JSON

    @classmethod
    def of(cls, failure: Mapping[str, Any] | None) -> Self | None:
        """From its JSON."""
        if failure is None:
            return None
        return cls(
            class_=failure["class"], message=failure["message"], detail=json(failure["detail"])
        )


@strawberry.type(description="How far a task is, in its unit")
class Progress:
    """`current` of `total`."""

    current: BigInt
    total: BigInt
    unit: str


@strawberry.type(description="One agent and one image of a preload or an unload")
class TaskItem:
    """Bytes are of the manifest's layers."""

    agent_id: str
    reference: str
    root_digest: str | None
    status: str
    phase: str
    attempts: int
    failure: FailureReport | None
    bytes_done: BigInt
    bytes_total: BigInt
    bytes_per_second: float | None
    eta_seconds: float | None
    kept_by: list[str]

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Self:
        """From its JSON."""
        return cls(
            agent_id=item["agentId"],
            reference=item["reference"],
            root_digest=item["rootDigest"],
            status=item["status"],
            phase=item["phase"],
            attempts=item["attempts"],
            failure=FailureReport.of(item["failure"]),
            bytes_done=big(item["bytesDone"]),
            bytes_total=big(item["bytesTotal"]),
            bytes_per_second=item["bytesPerSecond"],
            eta_seconds=item["etaSeconds"],
            kept_by=list(item["keptBy"]),
        )


@strawberry.type(description="Work that outlives the request that started it")
class Task:
    """`items`, `owner` and `transitions` are read when asked for."""

    id: strawberry.ID
    name: str
    status: str
    cancel_requested: bool
    progress: Progress
    message: str
    failure: FailureReport | None
    detail: JSON | None = strawberry.field(description="What else its end has to say")
    waits_for: list[strawberry.ID] = strawberry.field(
        description="The tasks that have to end before it begins"
    )
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    view: strawberry.Private[TaskView]
    whole: strawberry.Private[bool]

    @classmethod
    def of(cls, view: TaskView, *, whole: bool) -> Self:
        """From the view. Those of a list are not `whole`: they come without their items."""
        return cls(
            id=strawberry.ID(view.id),
            name=view.name,
            status=view.status.value,
            cancel_requested=view.cancel_requested,
            progress=Progress(current=big(view.current), total=big(view.total), unit=view.unit),
            message=view.message,
            failure=FailureReport.of(view.failure.to_json() if view.failure else None),
            detail=None if view.detail is None else json(dict(view.detail)),
            waits_for=[strawberry.ID(task_id) for task_id in view.waits_for],
            created_at=moment(view.created_at),
            started_at=maybe_moment(view.started_at),
            ended_at=maybe_moment(view.ended_at),
            view=view,
            whole=whole,
        )

    @strawberry.field
    async def owner(self, info: Info) -> str:
        """The name of the user who started it."""
        return await info.context.owner_name(self.view.owner_id)

    @strawberry.field
    async def items(self, info: Info) -> list[TaskItem]:
        """Its parts."""
        view = self.view if self.whole else await info.context.services.tasks.show(self.id)
        return [TaskItem.of(item) for item in view.items]

    @strawberry.field
    async def transitions(self, info: Info) -> list[Transition]:
        """Its states so far, oldest first."""
        views = await info.context.services.tasks.transitions(self.id)
        return [Transition.of(view, await info.context.actor(view.by)) for view in views]


@strawberry.type(description="A registry that images may come from")
class Registry:
    """Its password is never shown."""

    host: str
    url: str
    username: str | None

    @classmethod
    def of(cls, view: RegistryView) -> Self:
        """From the view."""
        return cls(host=view.host, url=view.url, username=view.username)


@strawberry.type(description="The task that was started")
class BackgroundTaskStarted:
    """Watch it at `/background-tasks?task_id=…`."""

    task_id: strawberry.ID
