"""The states of things and the one table of what may follow what.

Diagrams in the documentation are generated from these tables; the database changes a state by
compare-and-set and leaves a row in the transition log.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Generic, TypeVar

from wharfinger.domain.errors import IllegalTransition


class TaskStatus(StrEnum):
    """A background task."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIALLY_SUCCEEDED = "partially_succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ItemStatus(StrEnum):
    """One agent and one image of a preload or an unload."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptStatus(StrEnum):
    """One try of one agent to make one image present."""

    SENT = "sent"
    PULLING = "pulling"
    PRESENT = "present"
    FAILED = "failed"
    ABORTED = "aborted"


class KernelStatus(StrEnum):
    """One container of a session, from the queue to its end."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    PREPARING = "PREPARING"
    PULLING = "PULLING"
    PREPARED = "PREPARED"
    CREATING = "CREATING"
    RUNNING = "RUNNING"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"
    CANCELLED = "CANCELLED"
    ERROR = "ERROR"


class AgentStatus(StrEnum):
    """The process beside one engine, as the managers see it."""

    JOINING = "JOINING"
    UP = "UP"
    LOST = "LOST"
    RETIRED = "RETIRED"


S = TypeVar("S", bound=StrEnum)


class TransitionTable(Generic[S]):
    """What may follow what, and why. `edges[from][to]` is the reason in words."""

    def __init__(self, name: str, initial: S, edges: Mapping[S, Mapping[S, str]]) -> None:
        self.name = name
        self.initial = initial
        self.edges = edges
        self.states: tuple[S, ...] = tuple(type(initial))
        self.terminal: frozenset[S] = frozenset(s for s in self.states if not edges.get(s))
        self.open: tuple[S, ...] = tuple(s for s in self.states if s not in self.terminal)

    def allows(self, source: S, target: S) -> bool:
        """Whether `target` may follow `source`."""
        return target in self.edges.get(source, {})

    def sources(self, target: S) -> frozenset[S]:
        """The states `target` may follow."""
        return frozenset(s for s in self.states if self.allows(s, target))

    def check(self, source: S, target: S) -> None:
        """Raise `IllegalTransition` unless `target` may follow `source`."""
        if not self.allows(source, target):
            allowed = ", ".join(self.edges.get(source, {})) or "nothing"
            raise IllegalTransition(
                f"{self.name}: {source} is followed by {allowed}, not by {target}",
                entity=self.name,
                source=source.value,
                target=target.value,
            )

    def check_sources(self, sources: Iterable[S], target: S) -> None:
        """`check` for several possible present states."""
        for source in sources:
            self.check(source, target)


_ITEM_ENDS: Final = {
    ItemStatus.SKIPPED: "nothing to do there",
    ItemStatus.FAILED: "cannot be done there",
    ItemStatus.CANCELLED: "the task was cancelled before its turn",
}

TASK_TRANSITIONS: Final = TransitionTable(
    "task",
    TaskStatus.PENDING,
    {
        TaskStatus.PENDING: {
            TaskStatus.RUNNING: "a manager took it",
            TaskStatus.FAILED: "nobody can run it any more",
            TaskStatus.CANCELLED: "cancelled before it began",
        },
        TaskStatus.RUNNING: {
            TaskStatus.SUCCEEDED: "all of it is done",
            TaskStatus.PARTIALLY_SUCCEEDED: "some of it is done",
            TaskStatus.FAILED: "none of it is done",
            TaskStatus.CANCELLED: "cancelled, and every part confirmed stopped",
        },
    },
)

ITEM_TRANSITIONS: Final = TransitionTable(
    "item",
    ItemStatus.QUEUED,
    {
        ItemStatus.QUEUED: {
            ItemStatus.RUNNING: "its turn came",
            ItemStatus.DONE: "it was done by the time its turn came",
            **_ITEM_ENDS,
        },
        ItemStatus.RUNNING: {
            ItemStatus.QUEUED: "tried again after a failure that may pass",
            ItemStatus.DONE: "seen on the host",
            **_ITEM_ENDS,
        },
    },
)

ATTEMPT_TRANSITIONS: Final = TransitionTable(
    "attempt",
    AttemptStatus.SENT,
    {
        AttemptStatus.SENT: {
            AttemptStatus.PULLING: "ImagePullStarted",
            AttemptStatus.PRESENT: "the image was there, or the start was not heard of",
            AttemptStatus.FAILED: "refused, not reachable, or failed at once",
            AttemptStatus.ABORTED: "nobody waits for it any more",
        },
        AttemptStatus.PULLING: {
            AttemptStatus.PRESENT: "ImagePullFinished",
            AttemptStatus.FAILED: "ImagePullFailed, or its agent is lost",
            AttemptStatus.ABORTED: "nobody waits for it any more",
        },
    },
)

AGENT_TRANSITIONS: Final = TransitionTable(
    "agent",
    AgentStatus.JOINING,
    {
        AgentStatus.JOINING: {
            AgentStatus.UP: "its first full report is reconciled",
            AgentStatus.LOST: "no heartbeat",
            AgentStatus.RETIRED: "retired by an admin",
        },
        AgentStatus.UP: {
            AgentStatus.LOST: "no heartbeat",
            AgentStatus.RETIRED: "retired by an admin",
        },
        AgentStatus.LOST: {
            AgentStatus.UP: "back, and its first full report is reconciled",
            AgentStatus.RETIRED: "retired by an admin",
        },
    },
)

_KERNEL_FAILS: Final = {
    KernelStatus.ERROR: "a permanent failure, tries used up, or its agent gone beyond its grace"
}
_BEFORE_CREATING_ENDS: Final = {
    KernelStatus.CANCELLED: "asked for by its owner, or forced by a superadmin",
    **_KERNEL_FAILS,
}
_BACK: Final = {
    KernelStatus.PENDING: "a failure that may pass, a lost agent, or over quota: slots freed"
}

KERNEL_TRANSITIONS: Final = TransitionTable(
    "kernel",
    KernelStatus.PENDING,
    {
        KernelStatus.PENDING: {
            KernelStatus.SCHEDULED: "the scheduler bound an agent and reserved its slots",
            **_BEFORE_CREATING_ENDS,
        },
        KernelStatus.SCHEDULED: {
            KernelStatus.PREPARING: "check-and-pull is about to be called",
            **_BACK,
            **_BEFORE_CREATING_ENDS,
        },
        KernelStatus.PREPARING: {
            KernelStatus.PULLING: "ImagePullStarted of its attempt",
            KernelStatus.PREPARED: "the image was there already",
            **_BACK,
            **_BEFORE_CREATING_ENDS,
        },
        KernelStatus.PULLING: {
            KernelStatus.PREPARED: "ImagePullFinished of its attempt",
            **_BACK,
            **_BEFORE_CREATING_ENDS,
        },
        KernelStatus.PREPARED: {
            KernelStatus.CREATING: "all of its session are prepared, and the quota admits them",
            **_BACK,
            **_BEFORE_CREATING_ENDS,
        },
        KernelStatus.CREATING: {
            KernelStatus.RUNNING: "the container runs",
            KernelStatus.PREPARING: "the agent answers that the image is gone",
            KernelStatus.PENDING: "the agent confirmed that no container exists",
            KernelStatus.TERMINATING: "ended while creating: slots held until the container is gone",
            **_KERNEL_FAILS,
        },
        KernelStatus.RUNNING: {
            KernelStatus.TERMINATING: "asked for, or the container ended",
            **_KERNEL_FAILS,
        },
        KernelStatus.TERMINATING: {
            KernelStatus.TERMINATED: "its container has ended",
            KernelStatus.CANCELLED: "cancelled while creating, and no container is left",
            **_KERNEL_FAILS,
        },
    },
)

ALL_TRANSITIONS: Final = (
    TASK_TRANSITIONS,
    ITEM_TRANSITIONS,
    ATTEMPT_TRANSITIONS,
    AGENT_TRANSITIONS,
    KERNEL_TRANSITIONS,
)
