"""Progress arithmetic: bytes with the manifest's sizes as fixed denominators.

Each compressed byte counts half when downloaded and half when extracted. What is reported never
falls, and reaches the total only when the image was verified on the host.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What an item is busy with."""

    QUEUED = "queued"
    RESOLVING = "resolving"
    WAITING = "waiting"
    DOWNLOADING = "downloading"
    EXTRACTING = "extracting"
    VERIFYING = "verifying"
    RETRYING = "retrying"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as the manifest lists it: the digest and size (bytes) of the compressed blob."""

    digest: str
    size: int


class ImageProgress:
    """How far one image has come on one host.

    A layer is named by its digest or by the twelve hexadecimal digits engines shorten it to; a
    layer the manifest does not list is ignored. A digest listed twice counts once, since it is
    fetched once.
    """

    def __init__(self, layers: Iterable[Layer]) -> None:
        self._sizes = {_short(layer.digest): layer.size for layer in layers}
        self._downloaded = dict.fromkeys(self._sizes, 0)
        self._extracted = dict.fromkeys(self._sizes, 0)
        self._verified = False
        self._shown = 0

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self._sizes.values())

    @property
    def done(self) -> int:
        """Bytes done: monotonic, and below the total until `verified`."""
        if self._verified:
            return self.total
        halves = sum(self._downloaded.values()) + sum(self._extracted.values())
        self._shown = max(self._shown, min(halves // 2, max(self.total - 1, 0)))
        return self._shown

    @property
    def to_download(self) -> int:
        """Bytes that are not here yet, unpacked or not."""
        return 0 if self._verified else self.total - sum(self._downloaded.values())

    @property
    def activity(self) -> int:
        """A number that grows with every byte downloaded or extracted and never otherwise."""
        return sum(self._downloaded.values()) + sum(self._extracted.values())

    def downloaded(self, layer: str, current: int | None = None) -> None:
        """`current` bytes of this layer are here; None means all of it."""
        self._raise(self._downloaded, layer, current)

    def extracted(self, layer: str, current: int | None = None) -> None:
        """`current` compressed bytes of this layer are unpacked; None means all of it."""
        self._raise(self._extracted, layer, current)
        if current is None:
            self._raise(self._downloaded, layer, None)

    def verified(self) -> None:
        """The image was seen on the host as it should be: everything is done."""
        self._verified = True

    def _raise(self, counts: dict[str, int], layer: str, current: int | None) -> None:
        key = _short(layer)
        if key in self._sizes:
            size = self._sizes[key]
            counts[key] = max(counts[key], size if current is None else min(current, size))


class RateWindow:
    """Bytes per second and seconds left, from the last `seconds` of samples."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, at: float, done: int) -> None:
        """`done` bytes were done at `at` (seconds of any steady clock)."""
        self._samples.append((at, done))
        while len(self._samples) > 2 and self._samples[1][0] <= at - self._seconds:  # noqa: PLR2004
            self._samples.popleft()

    @property
    def rate(self) -> float | None:
        """Bytes per second, or None while too little is known."""
        if len(self._samples) < 2:  # noqa: PLR2004
            return None
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        return (last - first) / (ended - began) if ended > began else None

    def eta(self, remaining: int) -> float | None:
        """Seconds until `remaining` bytes are done at this rate, or None when not known."""
        rate = self.rate
        if remaining <= 0:
            return 0.0
        return remaining / rate if rate else None


def _short(digest: str) -> str:
    return digest.rpartition(":")[2][:12]
