"""Images that a catalogue knows without anybody having seen them."""

from collections.abc import Sequence

from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer
from wharfinger.domain.references import Reference
from wharfinger.registry.images import PlatformImage, ResolvedImage

AMD64 = Platform("linux", "amd64")


def told_image(
    reference: str,
    digest: str,
    platforms: Sequence[Platform] = (AMD64,),
    *,
    others: Sequence[Platform] = (),
    labels: Sequence[tuple[str, str]] = (),
) -> ResolvedImage:
    """An image of one layer on each platform, of 100 bytes on the first and one more on each
    further one."""
    variants = tuple(
        PlatformImage(each, digest, digest, (Layer(digest, 100 + index),), (), tuple(labels))
        for index, each in enumerate(platforms)
    )
    return ResolvedImage(Reference.parse(reference), digest, "index", variants, tuple(others))
