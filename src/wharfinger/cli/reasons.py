"""Why a kernel is where it is, in a sentence: its `statusInfo` with what belongs to it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from wharfinger.cli import words
from wharfinger.client.shapes import Kernel, Session
from wharfinger.domain.sessions import Reason

Data = Mapping[str, Any]

_CAUSES: Final = {
    "scalingGroup": "in another scaling group",
    "notUp": "not up",
    "cordoned": "cordoned",
    "architecture": "of another platform than the image",
    "tooSmall": "too small",
    "avoided": "avoided after a failure",
}
"""Why agents are no choice: the keys of `statusData.agents`."""


def why(thing: Session | Kernel) -> str:
    """The sentence for a session or a kernel; empty when there is nothing to say."""
    return sentence(thing["statusInfo"], thing["statusData"] or {})


def sentence(info: str, data: Data) -> str:
    """The sentence for a word of `Reason`. What `data` lacks is left out; a word that is not known
    here, of a newer manager, stands for itself."""
    if info not in _SENTENCES:
        return info.replace("-", " ")
    return words.plain(_SENTENCES[Reason(info)](data))


def _registry_unreachable(data: Data) -> str:
    return "its registry gives no answer" + _failure(data) + _next_try(data)


def _in_line(data: Data) -> str:
    ahead = data.get("sessionId")
    return f"session {ahead} comes first" if ahead else "an older session comes first"


def _quota_exceeded(data: Data) -> str:
    quota, occupied, asked = (data.get(key) or {} for key in ("quota", "occupied", "asked"))
    exceeded = [
        f"it asks for {words.slot(name, asked[name])}, and {words.amount(name, occupied[name])} "
        f"of {words.amount(name, quota[name])} is taken"
        for name in data.get("exceeds", ())
        if all(name in part for part in (quota, occupied, asked))
    ]
    return ": ".join(filter(None, ["the user's limit is reached", "; ".join(exceeded)]))


def _sessions_exceeded(data: Data) -> str:
    counts = f": {data['active']} of {data['limit']}" if {"active", "limit"} <= set(data) else ""
    return f"the user has as many sessions as allowed{counts}"


def _no_suitable_agent(data: Data) -> str:
    if "together" in data:
        return f"no agents could take its {data['together']} kernels at once, even if empty"
    counts = [
        f"{number} {_CAUSES.get(cause, cause)}"
        for cause, number in (data.get("agents") or {}).items()
    ]
    found = ", ".join(counts) if counts or "agents" not in data else "there are none"
    return ": ".join(filter(None, [f"no agent could take it{_asked(data)}", found]))


def _no_free_slots(data: Data) -> str:
    number = data.get("candidates")
    hosts = words.count(number, "agent") if number else "agents"
    held = data.get("heldFor")
    kept = f"; room is kept for session {held}, which waits longer" if held else ""
    return f"{hosts} could take it{_asked(data)}, but not now: too little is free{kept}"


def _pending_preparation(data: Data) -> str:
    figures = preparation_figures(data)
    return "waits for image preparation" + "".join(
        f"{mark}{part}" for mark, part in ((": ", preparation(data)), (", ", figures)) if part
    )


def preparation(data: Data) -> str:
    """`preload 4f2a on gpu-a`: what a kernel that is held back waits for, if `data` tells."""
    task, agent = data.get("taskId"), data.get("agentId")
    if not task:
        return ""
    kind = data.get("kind", "task")
    return words.plain(f"{kind} {task} on {agent}" if agent else f"{kind} {task}")


def preparation_figures(data: Data) -> str:
    """`1.2 GiB of 3.4 GiB, 0:40 left`, as far as it is known."""
    progress, left = data.get("progress") or {}, words.clock(data.get("etaSeconds"))
    total = progress.get("total")
    done = f"{words.size(progress['current'])} of {words.size(total)}" if total else ""
    return ", ".join(filter(None, (done, f"{left} left" if left else "")))


def _retrying(data: Data) -> str:
    avoided = data.get("avoidedAgentId")
    elsewhere = f"; {avoided} is avoided for a while" if avoided else ""
    return f"tried again{_failure(data)}{_next_try(data)}{elsewhere}"


def _agent_lost(data: Data) -> str:
    return (
        f"agent {data['agentId']} is not heard of"
        if "agentId" in data
        else ("its agent is not heard of")
    )


def _session_ended(data: Data) -> str:
    kernel = data.get("kernelId")
    return f"kernel {kernel} of its session ended" if kernel else "its session ended"


def _container_ended(data: Data) -> str:
    if data.get("outOfMemory"):
        return "it took more memory than it asked for: give it more with --mem"
    return "its container ended"


def _container_left(data: Data) -> str:
    return f"it ended, but its container cannot be removed yet{_failure(data)}"


def _just(text: str) -> Callable[[Data], str]:
    return lambda _: text


_SENTENCES: Final[Mapping[str, Callable[[Data], str]]] = {
    Reason.RESOLVING_IMAGE: _just("its registry is being asked for the image"),
    Reason.REGISTRY_UNREACHABLE: _registry_unreachable,
    Reason.IN_LINE: _in_line,
    Reason.USER_QUOTA_EXCEEDED: _quota_exceeded,
    Reason.USER_SESSIONS_EXCEEDED: _sessions_exceeded,
    Reason.NO_SUITABLE_AGENT: _no_suitable_agent,
    Reason.NO_FREE_SLOTS: _no_free_slots,
    Reason.PENDING_IMAGE_PREPARATION: _pending_preparation,
    Reason.RETRYING: _retrying,
    Reason.AGENT_LOST: _agent_lost,
    Reason.PULLS_LIMITED: _just("as many pulls are under way as allowed"),
    Reason.IMAGE_GONE: _just("the image was taken away meanwhile, and is fetched again"),
    Reason.ENDED_BY_USER: _just("ended on request"),
    Reason.SESSION_ENDED: _session_ended,
    Reason.CONTAINER_ENDED: _container_ended,
    Reason.CONTAINER_VANISHED: _just("its container is no longer on its host"),
    Reason.CONTAINER_LEFT: _container_left,
    Reason.FAILED: _just("it failed"),
}


def _failure(data: Data) -> str:
    match data.get("failure"):
        case {"class": str(failure_class), "message": str(message)}:
            return f" after {failure_class}: {message}"
        case _:
            return ""


def _next_try(data: Data) -> str:
    at = data.get("nextTryAt")
    return f"; next try at {words.moment(at)}" if isinstance(at, str) else ""


def _asked(data: Data) -> str:
    asked = data.get("asked")
    return f" ({words.slots(asked)})" if asked else ""
