"""The engine's JSON about containers, read without trusting it to be whole."""

from datetime import datetime
from typing import Any

from wharfinger.agent.engine.json_fields import identified, mapping, text
from wharfinger.agent.engine.names import full_id
from wharfinger.agent.engine.port import Container, ContainerDetail


def read_containers(listing: Any) -> list[Container] | None:
    """`GET /containers/json`; None when it is no list of what has an id."""
    entries = identified(listing)
    if entries is None:
        return None
    return [
        Container(
            container_id=entry["Id"],
            name=_first_name(entry),
            image_id=full_id(entry.get("ImageID")),
            state=text(entry, "State"),
            labels=_labels(entry),
        )
        for entry in entries
    ]


def read_container(inspected: Any) -> ContainerDetail | None:
    """`GET /containers/{name}/json`; None when it says of none."""
    entry = mapping(inspected)
    if not text(entry, "Id"):
        return None
    state = mapping(entry.get("State"))
    running = state.get("Running") is True
    started_at = read_time(state.get("StartedAt"))
    ended_at = read_time(state.get("FinishedAt"))
    # one that could not start has an exit code too: the shell's number for why
    ended = not running and state.get("Paused") is not True and None not in {started_at, ended_at}
    return ContainerDetail(
        container_id=entry["Id"],
        name=text(entry, "Name").removeprefix("/"),
        image_id=full_id(entry.get("Image")),
        state=text(state, "Status"),
        labels=_labels(mapping(entry.get("Config"))),
        running=running,
        exit_code=_exit_code(state) if ended else None,
        out_of_memory=state.get("OOMKilled") is True,
        started_at=started_at,
        ended_at=_not_before(started_at, ended_at) if ended else None,
        problem=text(state, "Error"),
    )


def has_terminal(inspected: Any) -> bool:
    """Whether its log has no frames, from `GET /containers/{name}/json`."""
    return mapping(mapping(inspected).get("Config")).get("Tty") is True


def read_time(written: Any) -> float | None:
    """Seconds since the epoch; None for the year 1, which means never, and for what is no time."""
    try:
        time = datetime.fromisoformat(written)
    except (TypeError, ValueError):
        return None
    return time.timestamp() if time.year > 1 and time.tzinfo is not None else None


def _exit_code(state: dict[str, Any]) -> int | None:
    code = state.get("ExitCode")
    return code if isinstance(code, int) else None


def _not_before(started_at: float | None, ended_at: float | None) -> float | None:
    """Engines note the start of a quick process some milliseconds after its end."""
    return ended_at if started_at is None or ended_at is None else max(started_at, ended_at)


def _labels(entry: dict[str, Any]) -> dict[str, str]:
    labels = mapping(entry.get("Labels"))
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _first_name(entry: dict[str, Any]) -> str:
    names = entry.get("Names")
    first = names[0] if isinstance(names, list) and names else ""
    return first.removeprefix("/") if isinstance(first, str) else ""
