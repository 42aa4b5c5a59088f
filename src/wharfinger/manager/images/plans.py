"""What a preload or an unload would do, host by host: the answers of `--dry-run`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wharfinger.domain.failures import Failure


class PlannedPreload(StrEnum):
    """What a preload would do on one host."""

    PULL = "pull"
    SKIP = "skip"
    """The image is there as it should be."""
    FAIL = "fail"
    """`failure` says why."""


class PlannedUnload(StrEnum):
    """What an unload would do on one host."""

    REMOVE = "remove"
    """The image goes, with the layers nobody else holds."""
    UNTAG = "untag"
    """The name goes; others go on holding the image."""
    SKIP = "skip"
    """There is nothing to remove."""
    FAIL = "fail"
    """`failure` says why."""


@dataclass(frozen=True, slots=True)
class PreloadPlan:
    """One agent and image. Bytes: `bytes_missing` to download (compressed), `bytes_needed` on disk
    at least, `disk_free` now, of the engine's data root; None where they cannot be known.
    `layers_known` is false where layers that are there already could not be found."""

    agent_id: str
    reference: str
    root_digest: str
    action: PlannedPreload
    failure: Failure | None = None
    bytes_total: int = 0
    bytes_missing: int | None = None
    bytes_needed: int | None = None
    layers_known: bool = True
    disk_free: int | None = None
    disk_total: int | None = None

    @property
    def disk_free_after(self) -> int | None:
        """What would be free after this alone, at most."""
        if self.disk_free is None or self.bytes_needed is None:
            return None
        return self.disk_free - self.bytes_needed

    def to_json(self) -> dict[str, Any]:
        """As the interfaces show it."""
        return {
            "agentId": self.agent_id,
            "reference": self.reference,
            "rootDigest": self.root_digest,
            "action": self.action.value,
            "failure": self.failure.to_json() if self.failure else None,
            "bytesTotal": self.bytes_total,
            "bytesMissing": self.bytes_missing,
            "bytesNeeded": self.bytes_needed,
            "layersKnown": self.layers_known,
            "diskFree": self.disk_free,
            "diskFreeAfter": self.disk_free_after,
            "diskTotal": self.disk_total,
        }


@dataclass(frozen=True, slots=True)
class UnloadPlan:
    """One agent and image. `kernels` are bound to the image there, `containers` (names) use it;
    `queued` are sessions that wait for this image and could run on no other host that holds it;
    `waits_for` is a task that prepares the image there now. `bytes_freed` counts the layers that no
    other image shares, None where the engine does not tell."""

    agent_id: str
    reference: str
    action: PlannedUnload
    failure: Failure | None = None
    image_id: str | None = None
    going: Sequence[str] = ()
    kept_by: Sequence[str] = ()
    kernels: Sequence[str] = ()
    containers: Sequence[str] = ()
    queued: Sequence[str] = ()
    waits_for: str | None = None
    bytes_freed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As the interfaces show it."""
        return {
            "agentId": self.agent_id,
            "reference": self.reference,
            "action": self.action.value,
            "failure": self.failure.to_json() if self.failure else None,
            "imageId": self.image_id,
            "going": list(self.going),
            "keptBy": list(self.kept_by),
            "kernels": list(self.kernels),
            "containers": list(self.containers),
            "queued": list(self.queued),
            "waitsFor": self.waits_for,
            "bytesFreed": self.bytes_freed,
        }
