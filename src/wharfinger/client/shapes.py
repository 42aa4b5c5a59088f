"""What the manager's API answers, as JSON: the keys people script against."""

from typing import Any, TypedDict

Failure = TypedDict("Failure", {"class": str, "message": str, "detail": Any})
"""Why something could not be done; `detail` is the raw text it came with."""

Transition = TypedDict(
    "Transition", {"from": str | None, "to": str, "at": str, "reason": str, "by": str}
)
"""One change of state. `at` is ISO 8601, UTC."""


class Progress(TypedDict):
    """`unit` is `bytes`, `items` or `images`."""

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
    """A background task. `detail` is what it found, in its own form; `waitsFor` are the ids of the
    tasks that must end before it begins. Times are ISO 8601, UTC."""

    id: str
    name: str
    owner: str
    status: str
    cancelRequested: bool
    progress: Progress
    message: str
    failure: Failure | None
    detail: dict[str, Any] | None
    waitsFor: list[str]
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


class Disk(TypedDict):
    """Bytes of the file system the engine keeps its images on."""

    free: int
    total: int


class Agent(TypedDict):
    """An agent, as lists have it. `disk` is null where its engine does not tell."""

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
    disk: Disk | None
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
    """`status` is `present`, `pulling` or `removing`; `size` in bytes as its engine counts."""

    agentId: str
    status: str
    size: int


class Platform(TypedDict):
    """`size` in compressed bytes, null where nobody has looked."""

    os: str
    architecture: str
    variant: str
    size: int | None


class CatalogueImage(TypedDict):
    """A reference in the catalogue. `status` is `known`, `missing` (its registry no longer has it)
    or `forgotten`."""

    reference: str
    rootDigest: str | None
    size: int
    status: str
    registry: str
    platforms: list[Platform]
    labels: dict[str, str]


class Image(CatalogueImage):
    """A reference at a digest, and where it is; `status` may be `unregistered`, too. No unload
    takes a `protected` one away."""

    protected: bool
    bytesOnAgents: int
    agents: list[ImageOnAgent]


class Protection(TypedDict):
    """Whether a reference is kept from being unloaded."""

    reference: str
    protected: bool


class PreloadPlan(TypedDict):
    """What a preload would do on one agent: `action` is `pull`, `skip` or `fail`.

    Bytes: `bytesMissing` of `bytesTotal` to download, `bytesNeeded` on disk at least, the disk's
    now and after this alone; null where they cannot be known. `layersKnown` is false where layers
    that are there already could not be found.
    """

    agentId: str
    reference: str
    rootDigest: str
    action: str
    failure: Failure | None
    bytesTotal: int
    bytesMissing: int | None
    bytesNeeded: int | None
    layersKnown: bool
    diskFree: int | None
    diskFreeAfter: int | None
    diskTotal: int | None


class UnloadPlan(TypedDict):
    """What an unload would do on one agent: `action` is `remove`, `untag` (the name goes, others
    go on holding the image), `skip` or `fail`.

    `going` are the names that go, `keptBy` those that stay; `kernels` and `containers` use the
    image there; `queued` are sessions that wait for it and would find it on no other agent;
    `waitsFor` is a task that prepares it there now. `bytesFreed` counts the layers no other image
    shares, null where the engine does not tell.
    """

    agentId: str
    reference: str
    action: str
    failure: Failure | None
    imageId: str | None
    going: list[str]
    keptBy: list[str]
    kernels: list[str]
    containers: list[str]
    queued: list[str]
    waitsFor: str | None
    bytesFreed: int | None


RescanFailure = TypedDict(
    "RescanFailure",
    {"reference": str, "repository": str, "class": str, "message": str},
    total=False,
)
"""What could not be read: one image, or with `repository` all of one."""


class RescannedRegistry(TypedDict):
    """What a rescan found in one registry: an entry of its task's `detail.registries`.

    `repositoriesFrom` is `registry`, or `catalogue` where the registry does not list them;
    `notImages` are other artifacts; of what `failed`, the first are in `failures`.
    """

    registry: str
    repositoriesFrom: str
    repositories: int
    tags: int
    new: int
    moved: int
    missing: int
    unchanged: int
    notImages: int
    failed: int
    failures: list[RescanFailure]


class Registry(TypedDict):
    """A registry the manager knows. The password is never told."""

    host: str
    url: str
    username: str | None


class Grants(TypedDict):
    """Whom the images below a path are for: names. With nobody named it is open to all."""

    path: str
    users: list[str]
    groups: list[str]


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
    """Somebody who may have tokens. `groups` are those images may be limited to."""

    groups: list[str]
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


class AuditEntry(TypedDict):
    """One deed: who (`actor`) did what (`action`) to what (`target`). `at` is ISO 8601, UTC."""

    id: str
    at: str
    actor: str
    action: str
    target: str
    detail: dict[str, Any]
