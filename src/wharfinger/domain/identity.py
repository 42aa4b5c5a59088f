"""When an image counts as present: the one rule that success rests on.

Ids are never compared: the containerd image store's is a manifest digest, the classic store's the
config digest, and fleets are mixed.
"""

from collections.abc import Iterable

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference


def holds(digests: Iterable[str], root_digest: str) -> bool:
    """Whether one of these `host/name@digest` entries is the root digest."""
    return any(entry.rpartition("@")[2] == root_digest for entry in digests)


def tag_name(reference: Reference) -> str | None:
    """The `host/name:tag` a reference wants set on the host, or None for a digest alone."""
    return f"{reference.name}:{reference.tag}" if reference.tag else None


def shortcoming(
    reference: Reference,
    root_digest: str,
    host: Platform,
    *,
    tags: Iterable[str],
    digests: Iterable[str],
    image: Platform,
    tag_matters: bool,
) -> Failure | None:
    """What keeps an inspected image from being `reference` at `root_digest`, or None.

    `tags` and `digests` are all names of the one inspected image. With `tag_matters` (preloads) the
    reference's tag must be among them.
    """
    digests = tuple(digests)
    if not holds(digests, root_digest):
        return Failure(
            FailureClass.CORRUPT,
            f"the host does not hold {root_digest} after the pull; another try fetches it anew",
            f"digests there: {', '.join(digests) or 'none'}",
        )
    if not host.runs(image):
        return Failure(
            FailureClass.WRONG_PLATFORM,
            f"the image is for {image}, this host is {host}: "
            "push a variant for it, or leave this host out",
        )
    wanted = tag_name(reference)
    if tag_matters and wanted is not None and wanted not in tags:
        return Failure(
            FailureClass.ENGINE_ERROR,
            f"the image is there, but the engine does not show the tag {wanted} on it",
        )
    return None
