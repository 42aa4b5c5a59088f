"""The gate's rule: which preparations and which kernels are about the same image."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class PreparationKind(StrEnum):
    """What is done to an image on a host."""

    PRELOAD = "preload"
    UNLOAD = "unload"


@dataclass(frozen=True, slots=True)
class ImageKeys:
    """All that one image is known by on one host, as far as it is known.

    `root_digests` are bare digests: an image may have an index's and a manifest's.
    """

    reference: str
    root_digests: frozenset[str] = frozenset()
    image_id: str | None = None

    @classmethod
    def of(
        cls, reference: str, root_digest: str | None = None, image_id: str | None = None
    ) -> "ImageKeys":
        """The keys of an image that is known by one root digest at most."""
        return cls(reference, frozenset({root_digest} if root_digest else ()), image_id)

    def meets(self, other: "ImageKeys") -> bool:
        """Whether both may be about one image: any of the three is the same."""
        return (
            self.reference == other.reference
            or not self.root_digests.isdisjoint(other.root_digests)
            or (self.image_id is not None and self.image_id == other.image_id)
        )


def met(keys: ImageKeys, others: Collection[ImageKeys]) -> bool:
    """Whether any of the others may be about the same image."""
    return any(keys.meets(other) for other in others)
