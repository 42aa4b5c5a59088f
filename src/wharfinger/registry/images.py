"""What a reference resolved to: the root digest and what each platform is to fetch."""

from dataclasses import dataclass
from typing import Any

from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer
from wharfinger.domain.references import Reference


@dataclass(frozen=True, slots=True)
class PlatformImage:
    """The image of one platform. `layers` are compressed blobs the registry holds; `diff_ids` are
    the digests of their uncompressed content, in the same order, or empty where nobody asked.
    `labels` are the image's own, sorted, as far as they are of a reasonable size."""

    platform: Platform
    manifest_digest: str
    config_digest: str
    layers: tuple[Layer, ...]
    diff_ids: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Compressed bytes, each blob once."""
        return sum({layer.digest: layer.size for layer in self.layers}.values())

    def to_json(self) -> dict[str, Any]:
        """For a task's arguments."""
        return {
            "platform": _platform_to_json(self.platform),
            "manifestDigest": self.manifest_digest,
            "configDigest": self.config_digest,
            "layers": [[layer.digest, layer.size] for layer in self.layers],
            "diffIds": list(self.diff_ids),
            "labels": dict(self.labels),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "PlatformImage":
        """The reverse of `to_json`."""
        return cls(
            _platform_from_json(document["platform"]),
            document["manifestDigest"],
            document["configDigest"],
            tuple(Layer(digest, size) for digest, size in document["layers"]),
            tuple(document.get("diffIds", ())),
            tuple(sorted(document.get("labels", {}).items())),
        )


@dataclass(frozen=True, slots=True)
class ResolvedImage:
    """A reference and what it meant when it was asked for.

    `root_digest` and `media_type` are those of the index or manifest the reference names itself.
    `others` are platforms the index has beside `platforms`, which no host asked for.
    """

    reference: Reference
    root_digest: str
    media_type: str
    platforms: tuple[PlatformImage, ...]
    others: tuple[Platform, ...] = ()

    def for_platform(self, host: Platform) -> PlatformImage | None:
        """What a host of this platform takes: its very own before the first it runs as well."""
        chosen = host.choose(image.platform for image in self.platforms)
        return next((image for image in self.platforms if image.platform == chosen), None)

    @property
    def available(self) -> tuple[Platform, ...]:
        """Every stated platform, each once: for the sentence that says that one is missing."""
        stated = (*(image.platform for image in self.platforms), *self.others)
        return tuple(dict.fromkeys(each for each in stated if each.os or each.architecture))

    @property
    def labels(self) -> dict[str, str]:
        """Those of the first platform that has any."""
        return dict(next((image.labels for image in self.platforms if image.labels), ()))

    def to_json(self) -> dict[str, Any]:
        """For a task's arguments."""
        return {
            "reference": str(self.reference),
            "rootDigest": self.root_digest,
            "mediaType": self.media_type,
            "platforms": [image.to_json() for image in self.platforms],
            "others": [_platform_to_json(each) for each in self.others],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "ResolvedImage":
        """The reverse of `to_json`."""
        return cls(
            Reference.parse(document["reference"]),
            document["rootDigest"],
            document["mediaType"],
            tuple(PlatformImage.from_json(each) for each in document["platforms"]),
            tuple(_platform_from_json(each) for each in document["others"]),
        )


def _platform_to_json(platform: Platform) -> list[str]:
    return [platform.os, platform.architecture, platform.variant]


def _platform_from_json(words: list[str]) -> Platform:
    os, architecture, variant = words
    return Platform(os, architecture, variant)
