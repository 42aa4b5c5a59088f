"""What a line of a pull's stream says, in every dialect of the Docker API.

Sources: the streams of Docker 20.10 (classic store), Docker 28 (containerd store) and Podman 4.3.
Nothing here raises: a line that is not understood says nothing.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from wharfinger.agent.engine.port import LayerEvent, LayerStep

_LAYER: Final = re.compile(r"(?:sha256:)?([0-9a-f]{12})(?:[0-9a-f]{52})?")

_WHOLE_STEPS: Final = {
    "Waiting": LayerStep.WAITING,
    "Verifying Checksum": LayerStep.DOWNLOADED,
    # Podman says this after unpacking, and also of a layer that just failed
    "Download complete": LayerStep.DOWNLOADED,
    "Pull complete": LayerStep.DONE,
    "Already exists": LayerStep.DONE,
}


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """The pull failed; `text` is the engine's own."""

    text: str


def read_line(line: Any) -> LayerEvent | StreamFailure | None:
    """Read one decoded object of the stream; None when it says nothing of a layer."""
    if not isinstance(line, dict):
        return None
    failure = _failure_text(line)
    if failure is not None:
        return StreamFailure(failure)
    layer = _LAYER.fullmatch(_text(line.get("id")))
    return _layer_event(layer[1], line) if layer else None


def _failure_text(line: dict[str, Any]) -> str | None:
    if "error" not in line and "errorDetail" not in line:
        return None
    detail = line.get("errorDetail")
    message = detail.get("message") if isinstance(detail, dict) else detail
    return _text(message) or _text(line.get("error")) or "the engine gave no reason"


def _layer_event(layer: str, line: dict[str, Any]) -> LayerEvent | None:
    status = _text(line.get("status"))
    if status in _WHOLE_STEPS:
        return LayerEvent(layer, _WHOLE_STEPS[status])
    if status == "Pulling fs layer":
        return LayerEvent(layer, LayerStep.DOWNLOADING, 0)
    if status == "Downloading":
        return LayerEvent(layer, LayerStep.DOWNLOADING, _bytes(line) or 0)
    if status == "Extracting":
        return LayerEvent(layer, LayerStep.EXTRACTING, _bytes(line))
    if status.startswith("Retrying in "):
        return LayerEvent(layer, LayerStep.RETRYING)
    return None


def _bytes(line: dict[str, Any]) -> int | None:
    """`progressDetail.current` where it counts bytes; the containerd store extracts in seconds."""
    detail = line.get("progressDetail")
    if not isinstance(detail, dict) or detail.get("units"):
        return None
    current = detail.get("current")
    if not isinstance(current, int) or isinstance(current, bool):
        return None
    return max(current, 0)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
