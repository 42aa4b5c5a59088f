"""How much room a pull takes at least, and whether it fits.

"At least" since only compressed sizes are known before a pull: what a layer holds takes no less
room unpacked. It usually takes two or three times as much, so a pull that is let through may still
meet a full disk; one that is refused surely would have.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

CONTAINERD: Final = "containerd"
CLASSIC: Final = "classic"

_WORTH_NOTING: Final = 64 * 1024 * 1024


def needed(missing: Sequence[int], store: str) -> int:
    """Bytes a store takes at its peak, at least, for these layers (compressed bytes, lowest first).

    * The classic store unpacks one layer after another and keeps the download of each until it is
      unpacked (measured: 1 GiB of one layer that nothing compresses takes 2050 MiB at its peak,
      1025 MiB in the end). So its peak is no lower than all layers up to one and that one again.
    * The containerd store keeps the compressed blobs beside what they unpack to, for as long as
      the image lives (the same image: 2050 MiB).
    * Of another store nothing is sure but the layers themselves. Podman buffers downloads on
      whichever file system `TMPDIR` is.
    """
    if store != CLASSIC:
        return kept(missing, store)
    so_far = accumulate(missing)
    return max((total + size for total, size in zip(so_far, missing, strict=True)), default=0)


def kept(missing: Sequence[int], store: str) -> int:
    """Bytes a store has taken at least when all is there, which is what counts of other pulls:
    their peaks need not fall together."""
    return 2 * sum(missing) if store == CONTAINERD else sum(missing)


def shortfall(free: int, needed: int, margin: int) -> int:
    """Bytes lacking for `needed` to fit with `margin` left free; 0 when it fits."""
    return max(0, needed + margin - free)


def differs(known: Mapping[str, int] | None, seen: Mapping[str, int] | None) -> bool:
    """Whether a disk (`free` and `total` bytes) is worth noting anew: what is free differs by more
    than 1 % or 64 MiB, or something else does."""
    if known is None or seen is None:
        return known is not seen
    change = abs(seen["free"] - known["free"])
    return known["total"] != seen["total"] or change > min(known["free"] // 100, _WORTH_NOTING)
