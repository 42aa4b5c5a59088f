"""The engine's JSON about images and itself, read without trusting it to be whole."""

from typing import Any, Final

from wharfinger.agent.engine.json_fields import identified, mapping, number, text
from wharfinger.agent.engine.names import full_id, read_names
from wharfinger.agent.engine.port import EngineDescription, LocalImage
from wharfinger.domain.platforms import Platform

CLASSIC_SILENCE: Final = 60.0
"""Healthy pulls of the classic store were silent for 2.2 s at most; the longest wait of the
daemon's own retries is 25 s."""
CONTAINERD_SILENCE: Final = 120.0
"""The containerd store counts in steps of 1 MiB: a slow line needs time for one."""
PODMAN_SILENCE: Final = 300.0
"""Podman says nothing while it unpacks: 24.5 s for layers of 40 000 small files, and in proportion
for larger ones."""

_CONTAINERD_DRIVER: Final = "io.containerd.snapshotter.v1"


def read_images(listing: Any) -> list[LocalImage] | None:
    """`GET /images/json`; None when it is no list of what has an id."""
    entries = identified(listing)
    return None if entries is None else [_image(entry, platform=None) for entry in entries]


def read_image(inspected: Any) -> LocalImage | None:
    """`GET /images/{name}/json`; None when it says of none."""
    if not isinstance(inspected, dict) or not text(inspected, "Id"):
        return None
    platform = Platform.parse(
        text(inspected, "Os"), text(inspected, "Architecture"), text(inspected, "Variant")
    )
    return _image(inspected, platform=platform)


def read_description(version: Any, info: Any) -> EngineDescription:
    """`GET /version` and `GET /info`."""
    version, info = mapping(version), mapping(info)
    kind = "podman" if is_podman(version) else "docker"
    store = _store(kind, info)
    if kind == "podman":
        silence = PODMAN_SILENCE
    else:
        silence = CONTAINERD_SILENCE if store == "containerd" else CLASSIC_SILENCE
    return EngineDescription(
        kind=kind,
        version=text(version, "Version"),
        store=store,
        # /info tells the kernel's word (armv7l), /version only Go's (arm)
        platform=Platform.parse(
            text(info, "OSType") or text(version, "Os"),
            text(info, "Architecture") or text(version, "Arch"),
        ),
        inactivity_seconds=silence,
        cpus=number(info, "NCPU"),
        memory=number(info, "MemTotal"),
    )


def is_podman(version: Any) -> bool:
    """Whether `GET /version` was answered by Podman."""
    components = mapping(version).get("Components")
    return isinstance(components, list) and any(
        "podman" in text(mapping(component), "Name").lower() for component in components
    )


def _image(entry: dict[str, Any], platform: Platform | None) -> LocalImage:
    tags, digests = read_names(entry.get("RepoTags"), entry.get("RepoDigests"))
    return LocalImage(
        image_id=full_id(entry["Id"]),
        tags=tags,
        digests=digests,
        size=number(entry, "Size"),
        platform=platform,
        diff_ids=_texts(mapping(entry.get("RootFS")).get("Layers")),
    )


def _texts(values: Any) -> tuple[str, ...]:
    return (
        tuple(each for each in values if isinstance(each, str)) if isinstance(values, list) else ()
    )


def _store(kind: str, info: dict[str, Any]) -> str:
    status = info.get("DriverStatus")
    if isinstance(status, list) and ["driver-type", _CONTAINERD_DRIVER] in status:
        return "containerd"
    return "classic" if kind == "docker" else text(info, "Driver")
