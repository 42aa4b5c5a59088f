"""Reading manifests and indexes, Docker's and OCI's, as they are found in the field.

A document is what its content is: media types are absent or wrong often enough.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer
from wharfinger.registry.failures import failure, read_json

DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
ACCEPT: Final = f"{OCI_INDEX}, {DOCKER_LIST}, {OCI_MANIFEST}, {DOCKER_MANIFEST}"

MANIFEST_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of a manifest or index: what registries and engines take."""
CONFIG_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of an image's config: engines take 12 MiB, and none says where it ends."""
LABELS_LIMIT: Final = 32 * 1024
"""Characters of an image's labels that are kept, names included."""

_IMAGE_CONFIGS: Final = frozenset(
    {
        "application/vnd.docker.container.image.v1+json",
        "application/vnd.oci.image.config.v1+json",
        "application/octet-stream",  # Docker 1.10 to 1.12 pushed these
        "",
    }
)
_ATTESTATION: Final = "vnd.docker.reference.type"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a document says of another one. `platform` is None where it is not stated."""

    digest: str
    size: int
    platform: Platform | None = None


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """An image for one platform. `layers` are those the registry holds: what is to be fetched from
    elsewhere (`urls`) is not among them."""

    media_type: str
    config: Descriptor
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """Images, or indexes of them, in the author's order, without attestations."""

    media_type: str
    entries: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image's config says: its platform, with empty words where it does not; the digests
    of all its layers' uncompressed content, or none where any is odd; its labels, sorted, as far
    as `LABELS_LIMIT` goes."""

    platform: Platform
    diff_ids: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


def is_digest(text: str) -> bool:
    """Whether this is a digest of an algorithm in use."""
    return _DIGEST.fullmatch(text) is not None


def parse_manifest(body: bytes, content_type: str, *, asked: str) -> ImageManifest | ImageIndex:
    """Read a document that a registry answered for `asked`.

    Raises `not-an-image` for what is something else, `corrupt` for what is malformed.
    """
    document = read_json(body)
    if not isinstance(document, dict):
        raise failure(
            FailureClass.REGISTRY_ERROR,
            f"{asked}: the registry's answer is not a manifest",
            f"{content_type or 'no content type'}: {body[:200].decode(errors='replace')}",
        )
    media_type = _media_type(document) or content_type
    has_index, has_image = "manifests" in document, "config" in document or "layers" in document
    if has_index and has_image:
        raise _not_an_image(asked, "it is an index and a manifest at once", media_type)
    if has_index:
        return _index(document, media_type or OCI_INDEX, asked)
    if has_image:
        return _image(document, media_type or OCI_MANIFEST, asked)
    if "fsLayers" in document or document.get("schemaVersion") == 1:
        raise _not_an_image(
            asked, "it is a manifest of schema 1, which engines no longer take", media_type
        )
    raise _not_an_image(asked, "it has neither layers nor manifests", media_type)


def parse_config(body: bytes, *, asked: str) -> ImageConfig:
    """Read an image's config; raises `corrupt` for what is no JSON object."""
    document = read_json(body)
    if not isinstance(document, dict):
        raise failure(
            FailureClass.CORRUPT,
            f"{asked}: its config is not a JSON object",
            body[:200].decode(errors="replace"),
        )
    return ImageConfig(_platform(document), _diff_ids(document), _labels(document))


def _image(document: dict[str, Any], media_type: str, asked: str) -> ImageManifest:
    config = document.get("config")
    config = config if isinstance(config, dict) else {}
    config_type = _media_type(config)
    artifact = document.get("artifactType")
    if config_type not in _IMAGE_CONFIGS:
        raise _not_an_image(asked, f"its config is of type {config_type!r}", str(artifact or ""))
    listed = document.get("layers")
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise _corrupt(asked, "its layers are not a list of descriptors", listed)
    layers = tuple(
        Layer(_digest(each, asked), _size(each, asked)) for each in listed if not each.get("urls")
    )
    return ImageManifest(
        media_type, Descriptor(_digest(config, asked), _size(config, asked)), layers
    )


def _index(document: dict[str, Any], media_type: str, asked: str) -> ImageIndex:
    listed = document["manifests"]
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise _corrupt(asked, "its manifests are not a list of descriptors", listed)
    entries = tuple(
        Descriptor(_digest(each, asked), _size(each, asked), _stated_platform(each))
        for each in listed
        if _may_be_image(each)
    )
    if not entries:
        raise _not_an_image(asked, "its index lists no image", media_type)
    return ImageIndex(media_type, entries)


def _may_be_image(entry: dict[str, Any]) -> bool:
    annotations, platform = entry.get("annotations"), entry.get("platform")
    if isinstance(annotations, dict) and _ATTESTATION in annotations:
        return False
    if (
        isinstance(platform, dict)
        and platform.get("os") == platform.get("architecture") == "unknown"
    ):
        return False
    media_type = _media_type(entry) or OCI_MANIFEST
    return media_type in {OCI_INDEX, DOCKER_LIST, OCI_MANIFEST, DOCKER_MANIFEST}


def _media_type(source: dict[str, Any]) -> str:
    """What a document or descriptor says it is; empty where it says nothing sensible."""
    stated = source.get("mediaType")
    return stated if isinstance(stated, str) else ""


def _stated_platform(entry: dict[str, Any]) -> Platform | None:
    platform = entry.get("platform")
    stated = _platform(platform) if isinstance(platform, dict) else Platform("", "")
    return stated if stated.os or stated.architecture else None


def _platform(source: dict[str, Any]) -> Platform:
    words = (source.get(key) for key in ("os", "architecture", "variant"))
    return Platform.parse(*(word if isinstance(word, str) else "" for word in words))


def _diff_ids(config: dict[str, Any]) -> tuple[str, ...]:
    rootfs = config.get("rootfs")
    listed = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(listed, list):
        return ()
    digests = tuple(each for each in listed if isinstance(each, str) and is_digest(each))
    return digests if len(digests) == len(listed) else ()


def _labels(config: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    running = config.get("config")
    listed = running.get("Labels") if isinstance(running, dict) else None
    if not isinstance(listed, dict):
        return ()
    kept, left = [], LABELS_LIMIT
    for name, value in sorted(listed.items()):
        left -= len(name) + len(value) if isinstance(value, str) else 0
        if left < 0:
            break
        if isinstance(value, str):
            kept.append((name, value))
    return tuple(kept)


def _digest(descriptor: dict[str, Any], asked: str) -> str:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not is_digest(digest):
        raise _corrupt(asked, "a digest in its manifest is none", digest)
    return digest


def _size(descriptor: dict[str, Any], asked: str) -> int:
    size = descriptor.get("size")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**63:
        raise _corrupt(asked, "a size in its manifest is none", size)
    return size


def _not_an_image(asked: str, why: str, raw: str) -> FailureError:
    return failure(FailureClass.NOT_AN_IMAGE, f"{asked} is not a container image: {why}", raw)


def _corrupt(asked: str, why: str, raw: object) -> FailureError:
    return failure(FailureClass.CORRUPT, f"{asked}: {why}", repr(raw)[:200])
