"""What an image was built of, read for the sizes of its layers.

Engines list every step of a build, newest first, with the unpacked bytes of its layer, and do not
say which steps made none: a step without bytes may have made an empty layer (an existing folder
chosen by WORKDIR), or no layer at all (ENV).
"""

import re
from typing import Any, Final

from wharfinger.agent.engine.json_fields import mapping, number, text

_MADE_NO_LAYER: Final = re.compile(
    r"(?:.*#\(nop\)\s+)?(?:ARG|CMD|ENTRYPOINT|ENV|EXPOSE|HEALTHCHECK|LABEL|MAINTAINER|ONBUILD|SHELL"
    r"|STOPSIGNAL|USER|VOLUME)\b"
)


def read_layer_sizes(listing: Any, layers: int) -> tuple[int, ...] | None:
    """`GET /images/{name}/history` of an image with so many layers: their bytes, lowest first.

    None when the steps cannot be matched with the layers.
    """
    steps = [mapping(step) for step in reversed(listing)] if isinstance(listing, list) else []
    sized = [step for step in steps if number(step, "Size") > 0]
    likely = [step for step in steps if number(step, "Size") > 0 or _may_have_one(step)]
    for chosen in (steps, sized, likely):
        if len(chosen) == layers:
            return tuple(number(step, "Size") for step in chosen)
    return None


def _may_have_one(step: dict[str, Any]) -> bool:
    return not _MADE_NO_LAYER.match(text(step, "CreatedBy"))
