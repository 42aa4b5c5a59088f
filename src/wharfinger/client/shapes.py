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
    slots: dict[str, Any]
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


class User(TypedDict):
    """`role` is `superadmin` or `user`."""

    id: str
    name: str
    role: str
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
