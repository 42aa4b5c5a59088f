"""What a round sees: the queue, the agents and the users as one snapshot shows them.

Plain data, read by `reading`, thought about by `planning`.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from wharfinger.domain.platforms import Platform
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.manager.gate.preparations import Preparations


class Rest(Enum):
    """How far the kernels of a waiting session are that do not wait."""

    NONE = auto()
    """All of its kernels wait."""
    BOUND = auto()
    """Some are bound, and surely without a container."""
    STARTED = auto()
    """Some may have a container."""


class WaitingKernel(NamedTuple):
    """A PENDING kernel. `root_digest` is None until its reference is resolved; `next_try_at` is
    when it may be tried again, None for at once; `info` and `data` are what it says now."""

    id: str
    reference: str
    root_digest: str | None
    slots: Slots
    next_try_at: float | None = None
    info: Reason | None = None
    data: Mapping[str, Any] | None = None


class WaitingSession(NamedTuple):
    """A session with a PENDING kernel. `kernels` are those that wait, by position; `held_since` is
    when it was first held back for the preparation of an image."""

    id: str
    owner_id: str
    scaling_group: str | None
    blocked_since: float | None
    kernels: list[WaitingKernel]
    rest: Rest = Rest.NONE
    held_since: float | None = None

    @property
    def asked(self) -> Slots:
        """What its waiting kernels ask for together."""
        first, *others = self.kernels
        return sum((kernel.slots for kernel in others), first.slots)


@dataclass(frozen=True, slots=True)
class Host:
    """An agent that is not retired. `capacity` is what sessions may use of it in all."""

    id: str
    scaling_group: str
    platform: Platform
    is_up: bool
    cordoned: bool
    capacity: Slots
    occupied: Slots


@dataclass(frozen=True, slots=True)
class Account:
    """A user's limits (None is no limit) and what they have now."""

    quota: Quota = field(default_factory=Quota)
    max_sessions: int | None = None
    scaling_groups: frozenset[str] | None = None
    occupied: Slots = field(default_factory=Slots)
    active: int = 0


@dataclass(frozen=True, slots=True)
class Avoidance:
    """Sessions avoid an agent for an image it failed to get, `until` then."""

    until: float
    failure: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """One snapshot, at the database's time `at`.

    `sessions` are oldest first. `accounts` has the users that are known, by id. By root digest:
    `platforms` that an image is for, `holders` that have it, agents `avoided` for it. `pulls` are
    (agent, root digest) of what is being brought, or will be.
    `preparations` are those under way on any agent.
    """

    at: float
    sessions: Sequence[WaitingSession]
    hosts: Sequence[Host]
    accounts: Mapping[str, Account] = field(default_factory=dict)
    platforms: Mapping[str, Sequence[Platform]] = field(default_factory=dict)
    holders: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    avoided: Mapping[str, Mapping[str, Avoidance]] = field(default_factory=dict)
    pulls: AbstractSet[tuple[str, str]] = frozenset()
    preparations: Preparations = field(default_factory=Preparations)
