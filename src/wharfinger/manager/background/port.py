"""What the task framework offers and asks. Usable for anything that outlives its request."""

from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from wharfinger.domain.errors import Conflict
from wharfinger.domain.failures import Failure
from wharfinger.domain.states import TaskStatus

Item = Mapping[str, Any]
"""A part of a task as the interfaces show it (JSON-ready), with its `agentId` and `reference`."""


class LostTask(Conflict):
    """Another manager runs this task now."""


class Outstanding(Conflict):
    """Tasks are outstanding that this one would have to wait for."""

    def __init__(self, task_ids: Sequence[str]) -> None:
        super().__init__(taskIds=list(task_ids))
        self.task_ids = tuple(task_ids)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How a task ended: one of the terminal statuses, and a sentence. `detail` is what else there
    is to say, JSON-ready."""

    status: TaskStatus
    message: str = ""
    failure: Failure | None = None
    detail: Mapping[str, Any] | None = None


class ProgressReporter(Protocol):
    """What a body tells while it runs. Cheap: it goes to the bus, and to the database at most
    every two seconds."""

    async def __call__(
        self,
        *,
        current: int | None = None,
        maximum: int | None = None,
        message: str | None = None,
        items: Sequence[Item] = (),
    ) -> None:
        """Report; what is None stays as it was. `items` are those that changed."""


class TaskBody(Protocol):
    """The body of an ad hoc task. Cancelling the task cancels the coroutine."""

    async def __call__(self, reporter: ProgressReporter) -> TaskResult:
        """Do the work and say how it ended. An exception ends the task as failed, `internal`."""


class TaskRun(ProgressReporter, Protocol):
    """What a named task's function is given."""

    @property
    def task_id(self) -> str:
        """The task."""

    @property
    def epoch(self) -> int:
        """The number of this run: a condition of everything the runner writes."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What the task was started with."""

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked to cancel. The function then stops its parts, and returns
        `cancelled` (or the true end, when all was done anyway)."""

    async def wait_cancel_requested(self) -> None:
        """Return once `cancel_requested` is true."""


class NamedFunction(Protocol):
    """The function of a named task: run by whichever manager holds the task's lease.

    It may be cancelled at any point (its manager stops, or lost the lease), and is then run again,
    here or elsewhere: it goes on from what the database says. Everything it writes it writes after
    `holding.hold`; what that raises it lets out, and the run ends without a word.
    """

    async def __call__(self, run: TaskRun) -> TaskResult:
        """Do the work and say how it ended."""


class ItemsOf(Protocol):
    """Reads the items of a task for snapshots: runs in a reading transaction."""

    def __call__(self, conn: Any, task_id: str, /) -> Sequence[Item]:
        """All items, in a stable order."""


class JobScheduler(Protocol):
    """A caller's own scheduler of coroutines (`aiojobs.Scheduler` fits)."""

    async def spawn(self, coro: Coroutine[Any, Any, Any], name: str | None = None) -> Any:
        """Run it."""

    async def close(self) -> None:
        """Cancel and await all it runs."""


class OutstandingMirror(Protocol):
    """Tells others which tasks with a category are outstanding. It decides nothing.

    What cannot be told now is dropped: the next round tells it, or its time runs out.
    """

    async def keep(self, tasks: Mapping[str, Collection[str]], *, seconds: float) -> None:
        """Say, for that long, that these tasks are outstanding: their ids, by category."""

    async def remove(self, task_ids: Collection[str], categories: Collection[str]) -> None:
        """Say no more that these are; each may be of any of these categories."""


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as it is now. `waits_for` are the ids of those that a pending one has to wait for."""

    id: str
    name: str
    owner_id: str
    status: TaskStatus
    cancel_requested: bool
    current: int
    total: int
    unit: str
    message: str
    failure: Failure | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    items: Sequence[Item] = field(default=())
    detail: Mapping[str, Any] | None = None
    waits_for: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """As the interfaces show it."""
        return {
            "id": self.id,
            "name": self.name,
            "status": self.status.value,
            "cancelRequested": self.cancel_requested,
            "progress": {"current": self.current, "total": self.total, "unit": self.unit},
            "message": self.message,
            "failure": self.failure.to_json() if self.failure else None,
            "detail": None if self.detail is None else dict(self.detail),
            "waitsFor": list(self.waits_for),
            "createdAt": self.created_at,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "items": [dict(item) for item in self.items],
        }


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """What a watcher gets. `kind`: bgtask_updated, bgtask_done, bgtask_partial_success,
    bgtask_failed, bgtask_cancelled. `data` has `task_id, current_progress, total_progress,
    message, items` (in updates after the first only the items that changed)."""

    id: str
    kind: str
    data: Mapping[str, Any]

    @property
    def last(self) -> bool:
        """Whether the stream ends with it."""
        return self.kind != "bgtask_updated"
