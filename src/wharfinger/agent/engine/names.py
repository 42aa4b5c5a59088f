"""Names as engines spell them, read into normalised references.

Engines leave out `docker.io/library`, say "none" as null, `[]`, `<none>:<none>` or `<none>@<none>`,
and two of them list digest references among the tags (the containerd store, Podman).
"""

import re
from typing import Any, Final

import structlog

from wharfinger.domain.errors import InvalidReference
from wharfinger.domain.references import Reference

log = structlog.get_logger()

_NONE: Final = "<none>"
_BARE_DIGEST: Final = re.compile(r"(?:sha256:)?[0-9a-f]{64}")


def read_names(repo_tags: Any, repo_digests: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`tags` and `digests` of an image, each once, in the engine's order.

    `name:tag@digest` is a digest reference alone: the containerd store does not know the image
    as `name:tag` then. What is no reference is left out.
    """
    tags: dict[str, None] = {}
    digests: dict[str, None] = {}
    for reference in (*_references(repo_tags), *_references(repo_digests)):
        if reference.digest is not None:
            digests[reference.pinned(reference.digest)] = None
        else:
            tags[str(reference)] = None
    return tuple(tags), tuple(digests)


def full_id(text: Any) -> str:
    """`sha256:…`, also where the engine leaves the algorithm out."""
    if not isinstance(text, str):
        return ""
    return f"sha256:{text}" if re.fullmatch(r"[0-9a-f]{64}", text) else text


def _references(names: Any) -> list[Reference]:
    if not isinstance(names, list):
        return []
    return [reference for name in names if (reference := _reference(name)) is not None]


def _reference(name: Any) -> Reference | None:
    if not isinstance(name, str) or _NONE in name or _BARE_DIGEST.fullmatch(name):
        return None
    try:
        return Reference.parse(name)
    except InvalidReference as error:
        log.debug("engine lists an odd name", name=name, why=error.message)
        return None
