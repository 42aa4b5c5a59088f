"""What the manager's API answers, as JSON: the keys people script against."""

from typing import Any, TypedDict

Failure = TypedDict("Failure", {"class": str, "message": str, "detail": Any})
"""Why something could not be done; `detail` is the raw text it came with."""

Transition = TypedDict(
    "Transition", {"from": str | None, "to": str, "at": str, "reason": str, "by": str}
)
"""One change of state. `at` is ISO 8601, UTC."""


class Progress(TypedDict):
    """`unit` is `bytes` or `items`."""

    current: int
    total: int
    unit: str


class Item(TypedDict):
    """One agent and one image of a preload or an unload."""

    agentId: str
    reference: str
    rootDigest: str | None
    status: str
    phase: str | None
    attempts: int
    failure: Failure | None
    bytesDone: int
    bytesTotal: int
    bytesPerSecond: float | None
    etaSeconds: float | None
    keptBy: list[str]


class Task(TypedDict):
    """A background task. Times are ISO 8601, UTC."""

    id: str
    name: str
    owner: str
    status: str
    cancelRequested: bool
    progress: Progress
    message: str
    failure: Failure | None
    createdAt: str
    startedAt: str | None
    endedAt: str | None
    items: list[Item]


class TaskHistory(Task):
    """A task with its transitions, oldest first."""

    transitions: list[Transition]


class Slots(TypedDict):
    """Processors (a fraction, maybe), bytes of memory, graphics processors."""

    cpu: float
    mem: int
    gpu: int


class Pull(TypedDict):
    """How far a kernel's image is, in bytes."""

    phase: str
    bytesDone: int
    bytesTotal: int
    bytesPerSecond: float | None
    etaSeconds: float | None


class Kernel(TypedDict):
    """One container of a session. `statusInfo` says in a word why it is where it is, `statusData`
    what belongs to that. Times are ISO 8601, UTC; transitions oldest first."""

    id: str
    agentId: str | None
    reference: str
    rootDigest: str | None
    status: str
    statusInfo: str
    statusData: dict[str, Any] | None
    attempts: int
    exitCode: int | None
    failure: Failure | None
    slots: Slots
    pull: Pull | None
    command: list[str]
    startedAt: str | None
    endedAt: str | None
    transitions: list[Transition]


class Session(TypedDict):
    """One or more kernels that start and end together, the main one first."""

    id: str
    name: str
    owner: str
    scalingGroup: str | None
    status: str
    statusInfo: str
    statusData: dict[str, Any] | None
    createdAt: str
    endedAt: str | None
    kernels: list[Kernel]


class Variable(TypedDict):
    """One variable of a container's environment."""

    name: str
    value: str


class KernelSpec(TypedDict):
    """What is asked for one kernel. An empty command is the image's own."""

    reference: str
    cpu: float
    mem: int
    gpu: int
    command: list[str]
    environment: list[Variable]


class Engine(TypedDict):
    """`problem` says why the engine cannot be used; empty while it can."""

    kind: str
    version: str
    store: str
    problem: str


class Agent(TypedDict):
    """An agent, as lists have it."""

    id: str
    scalingGroup: str
    status: str
    cordoned: bool
    os: str
    architecture: str
    variant: str
    version: str
    engine: Engine
    slots: Slots
    occupied: Slots
    heardSecondsAgo: float


class AgentImage(TypedDict):
    """An image an agent holds; `size` in bytes, as its engine counts."""

    reference: str
    rootDigest: str | None
    imageId: str
    size: int


class AgentHistory(Agent):
    """An agent with its images and its transitions."""

    images: list[AgentImage]
    transitions: list[Transition]


class ImageOnAgent(TypedDict):
    """`status` is `present`, `pulling` or `removing`."""

    agentId: str
    status: str


class Image(TypedDict):
    """A reference at a digest, and where it is."""

    reference: str
    rootDigest: str | None
    size: int
    agents: list[ImageOnAgent]


class Registry(TypedDict):
    """A registry the manager knows. The password is never told."""

    host: str
    url: str
    username: str | None


class Limits(TypedDict):
    """What a user may have at most; None is no limit."""

    sessions: int | None
    cpu: float | None
    mem: int | None
    gpu: int | None


class Occupied(Slots):
    """What a user's sessions occupy."""

    sessions: int


class LimitChanges(TypedDict, total=False):
    """New limits: what is absent stays as it is, None is no limit."""

    maxSessions: int | None
    cpu: float | None
    mem: int | None
    gpu: int | None
    scalingGroups: list[str] | None


class Viewer(TypedDict):
    """Who you are. `role` is `superadmin` or `user`; `scalingGroups` None means all of them."""

    id: str
    name: str
    role: str
    limits: Limits
    scalingGroups: list[str] | None
    occupied: Occupied


class User(Viewer):
    """Somebody who may have tokens."""

    createdAt: str


class Token(TypedDict):
    """A token, without its secret."""

    id: str
    user: str
    label: str
    createdAt: str


class NewToken(TypedDict):
    """A token that was made just now: the only time its secret is told."""

    id: str
    token: str
