"""What keeps a session or a kernel from its turn, each rule a function of its own.

The user's rules answer with a `Hold`, or None when they let the session pass. The agent's rules
tell whether an agent could take a kernel if nothing ran there.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.domain.suitability import may_use, suits
from wharfinger.manager.gate.preparations import Preparation
from wharfinger.manager.scheduler.picture import Avoidance, Host, Picture, WaitingSession
from wharfinger.manager.sessions.moments import moment

_NEARER_SECONDS: Final = 10.0
"""By which another preparation has to end sooner to be told instead."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a session waits, as its kernels say it. `blocks`: younger sessions of its user wait for
    it."""

    info: Reason
    data: Mapping[str, Any]
    blocks: bool = True


# the user's


def in_line(ahead: str | None) -> Hold | None:
    """An older session of the same user waits for what this one would take: the nearest one."""
    return None if ahead is None else behind(ahead)


def behind(session_id: str) -> Hold:
    """It would take what this older session of the same user needs."""
    return Hold(Reason.IN_LINE, {"sessionId": session_id})


def sessions_exceeded(limit: int | None, active: int) -> Hold | None:
    """Its user has as many sessions as allowed."""
    if limit is None or active < limit:
        return None
    return Hold(Reason.USER_SESSIONS_EXCEEDED, {"limit": limit, "active": active})


def quota_exceeded(quota: Quota, occupied: Slots, asked: Slots) -> Hold | None:
    """Its user would occupy more than allowed. What is too much by itself blocks nobody: it would
    do so for ever."""
    exceeds = quota.exceeded_by(occupied + asked)
    if not exceeds:
        return None
    data = {
        "exceeds": exceeds,
        "quota": _quota_to_json(quota),
        "occupied": occupied.to_json(),
        "asked": asked.to_json(),
    }
    return Hold(Reason.USER_QUOTA_EXCEEDED, data, blocks=not quota.exceeded_by(asked))


def _quota_to_json(quota: Quota) -> dict[str, Any]:
    """`{cpu, mem, gpu}` as `Slots.to_json`, those that are limited."""
    cpu = None if quota.cpu is None else quota.cpu / 1000
    limits = {"cpu": cpu, "mem": quota.mem, "gpu": quota.gpu}
    return {name: most for name, most in limits.items() if most is not None}


# the agent's


class Cause(StrEnum):
    """Why an agent could not take a kernel even if it were empty; the first that holds counts."""

    SCALING_GROUP = "scalingGroup"
    """It is in a group that the session did not name, or its owner may not use."""
    NOT_UP = "notUp"
    CORDONED = "cordoned"
    ARCHITECTURE = "architecture"
    """The image is for other platforms."""
    TOO_SMALL = "tooSmall"
    AVOIDED = "avoided"
    """It failed to get the image not long ago."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What one kernel asks of an agent. `session_group` is the one its session named, `user_groups`
    are those its owner may use; None is any."""

    slots: Slots
    reference: str
    root_digest: str
    session_group: str | None = None
    user_groups: frozenset[str] | None = None

    @property
    def keys(self) -> ImageKeys:
        """What its image is known by before it is on a host."""
        return keys(self.reference, self.root_digest)


def keys(reference: str, root_digest: str) -> ImageKeys:
    """What the image of a kernel that waits is known by."""
    return ImageKeys.of(reference, root_digest)


def avoided(picture: Picture, root_digest: str) -> Mapping[str, Avoidance]:
    """The agents that are not tried for an image at present."""
    return picture.avoided.get(root_digest, {})


def preparing(picture: Picture, ask: Ask) -> Mapping[str, Preparation]:
    """The agents under preparation for what may be this image, each with the preparation."""
    found = ((host.id, picture.preparations.against(host.id, ask.keys)) for host in picture.hosts)
    return {agent_id: each for agent_id, each in found if each is not None}


def taken_out(picture: Picture, ask: Ask) -> AbstractSet[str]:
    """The agents that take no kernels of this image for now, though they could. What binds sees to
    the same under their locks (`binding`)."""
    return avoided(picture, ask.root_digest).keys() | preparing(picture, ask).keys()


_RULES: Final[Mapping[Cause, Callable[[Picture, Host, Ask], bool]]] = {
    Cause.SCALING_GROUP: lambda _, host, ask: may_use(
        host.scaling_group, ask.session_group, ask.user_groups
    ),
    Cause.NOT_UP: lambda _, host, __: host.is_up,
    Cause.CORDONED: lambda _, host, __: not host.cordoned,
    Cause.ARCHITECTURE: lambda picture, host, ask: suits(
        host.platform, picture.platforms.get(ask.root_digest)
    ),
    Cause.TOO_SMALL: lambda _, host, ask: ask.slots.fits(host.capacity),
    Cause.AVOIDED: lambda picture, host, ask: host.id not in avoided(picture, ask.root_digest),
}


def cause_against(picture: Picture, host: Host, ask: Ask) -> Cause | None:
    """What keeps an agent from ever taking a kernel; None when it could, if it were empty."""
    return next((cause for cause, rule in _RULES.items() if not rule(picture, host, ask)), None)


def count_causes(picture: Picture, ask: Ask) -> Counter[Cause | None]:
    """How many agents cannot take a kernel, by cause; under None, how many can."""
    return Counter(cause_against(picture, host, ask) for host in picture.hosts)


def no_suitable_agent(picture: Picture, ask: Ask, causes: Mapping[Cause | None, int]) -> Hold:
    """No agent could ever take a kernel. `data` counts agents by cause, and tells what failed on
    those that are avoided."""
    data: dict[str, Any] = {
        "asked": ask.slots.to_json(),
        "agents": {cause.value: causes[cause] for cause in Cause if causes.get(cause)},
    }
    if causes.get(Cause.AVOIDED):
        data["avoided"] = [
            {"agentId": agent_id, "until": moment(each.until), "failure": each.failure}
            for agent_id, each in sorted(avoided(picture, ask.root_digest).items())
        ]
    return Hold(Reason.NO_SUITABLE_AGENT, data, blocks=False)


def not_together(session: WaitingSession) -> Hold:
    """Agents could take any of its kernels, but never all at once."""
    data = {"asked": session.asked.to_json(), "together": len(session.kernels)}
    return Hold(Reason.NO_SUITABLE_AGENT, data, blocks=False)


def pending_image_preparation(there: Collection[Preparation], said: Mapping[str, Any]) -> Hold:
    """It would be placed now, were it not for preparations of its image, `there` where it has room.

    Said only then: where those agents are full as well, the end of a preparation would not help,
    and `no_free_slots` is the truth; where another agent suits but is full, the preparation is
    still what it waits for. `data` tells the preparation nearest its end, which is kept as `said`
    before while no other is clearly nearer. It has no figures: they change all the time, and views
    add them as agents tell them.

    It blocks nobody: younger sessions of its user go on with what it leaves (`queue.Line`).
    """
    nearest = min(there, key=left)
    before = next((each for each in there if each.item_id == said.get("itemId")), nearest)
    stays = left(before)[0] <= left(nearest)[0] + _NEARER_SECONDS
    told = before if stays else nearest
    data = {
        "kind": told.kind.value,
        "taskId": told.task_id,
        "agentId": told.agent_id,
        "itemId": told.item_id,
        "attemptId": told.attempt_id,
        "progress": None,
        "etaSeconds": None,
    }
    return Hold(Reason.PENDING_IMAGE_PREPARATION, data, blocks=False)


def left(preparation: Preparation) -> tuple[float, int, float, str]:
    """Smaller for one that is nearer its end: an unload takes moments, and of a preload whose time
    is not known nothing is."""
    seconds = preparation.eta_seconds
    if seconds is None:
        seconds = 0.0 if preparation.kind is PreparationKind.UNLOAD else math.inf
    bytes_left = preparation.bytes_total - preparation.bytes_done
    return seconds, bytes_left, preparation.begun_at, preparation.item_id


def no_free_slots(asked: Slots, candidates: int, held_for: str | None) -> Hold:
    """None of the agents that could take a kernel has room (whether one is being prepared for it or
    not), but one that may be held for an older session."""
    data: dict[str, Any] = {"asked": asked.to_json(), "candidates": candidates}
    if held_for is not None:
        data["heldFor"] = held_for
    return Hold(Reason.NO_FREE_SLOTS, data)
