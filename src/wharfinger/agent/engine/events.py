"""The engine's events, as far as they say that something may have changed."""

import json
from typing import Any, Final

from wharfinger.agent.engine.json_fields import mapping, text
from wharfinger.agent.engine.port import Change

FILTERS: Final = json.dumps({"type": ["image", "container"]})
"""What to ask the engine for."""

_TYPES: Final = {"image": Change.IMAGES, "container": Change.CONTAINERS}
_HARMLESS: Final = ("exec", "health_status", "attach", "detach", "top", "resize", "archive-path")
"""How what leaves a container as it was begins (`exec_create: sh -c …`). Everything else counts:
each dialect has its own words for beginning, ending and removing."""


def read_change(event: Any) -> Change | None:
    """What may have changed with this event of `GET /events`, if anything."""
    change = _TYPES.get(text(mapping(event), "Type"))
    harmless = text(mapping(event), "Action").startswith(_HARMLESS)
    return None if change is Change.CONTAINERS and harmless else change
