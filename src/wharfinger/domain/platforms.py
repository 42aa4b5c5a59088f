"""Platforms as engines and registries name them, normalised.

Sources: the OCI image index specification (os, architecture, variant are GOOS/GOARCH words) and
what engines really report (`x86_64`, `aarch64`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_ARCHITECTURES: Final = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "aarch64": "arm64",
    "armhf": "arm",
    "armv7l": "arm",
    "armel": "arm",
    "i386": "386",
    "i686": "386",
}
_VARIANTS: Final = {
    "armv7l": "v7",
    "armhf": "v7",
    "armel": "v6",
}


@dataclass(frozen=True, slots=True)
class Platform:
    """An operating system, an architecture and, for ARM, a variant. Empty means not stated."""

    os: str
    architecture: str
    variant: str = ""

    @classmethod
    def parse(cls, os: str, architecture: str, variant: str = "") -> "Platform":
        """From any spelling in use; arm64 is v8 and arm is v7 where no variant is given."""
        raw = architecture.strip().lower()
        name = _ARCHITECTURES.get(raw, raw)
        variant = variant.strip().lower() or _VARIANTS.get(raw, "")
        variant = {"8": "v8", "7": "v7", "6": "v6", "5": "v5"}.get(variant, variant)
        if name == "arm64":
            variant = "" if variant == "v8" else variant
        elif name == "arm" and not variant:
            variant = "v7"
        return cls(os.strip().lower(), name, variant)

    def runs(self, image: "Platform") -> bool:
        """Whether a host of this platform runs an image of that one.

        What the image does not state is not held against it. arm v7 does not take v6 and never
        v8: an index states each it has.
        """
        if image.os and image.os != self.os:
            return False
        if image.architecture and image.architecture != self.architecture:
            return False
        if self.architecture == "arm" and image.architecture:
            return image.variant == self.variant
        return not image.variant or image.variant == self.variant or self.architecture == "amd64"

    def choose(self, offered: Iterable["Platform"]) -> "Platform | None":
        """What a host of this platform takes of an index: its very own, else the first it runs."""
        runnable = [image for image in offered if self.runs(image)]
        return self if self in runnable else next(iter(runnable), None)

    def __str__(self) -> str:
        parts = [self.os or "?", self.architecture or "?", self.variant]
        return "/".join(part for part in parts if part)
