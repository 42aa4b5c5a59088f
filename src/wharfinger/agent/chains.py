"""Which layers the engine's images are made of.

Engines share a layer between two images when everything below it is the same too: a layer is known
by its chain, the digest of the chain below and of its own content.
"""

import asyncio
import hashlib
from collections.abc import Sequence

from wharfinger.agent.engine.port import Engine, LocalImage


class LayerChains:
    """The chains of every image of the engine.

    What an id stands for never changes: each image is inspected once, and forgotten when it is no
    longer listed (32 bytes for each of its layers are kept until then).
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, tuple[bytes, ...]] = {}
        self._reading = asyncio.Lock()

    async def refresh(self) -> Sequence[LocalImage]:
        """Learn what the engine holds now: its listing. Raises `EngineError`."""
        async with self._reading:
            listed = {image.image_id: image for image in await self._engine.images()}
            for image_id in listed.keys() - self._known.keys():
                # gone meanwhile, it shares nothing
                if (image := await self._engine.inspect(image_id)) is not None:
                    self._known[image_id] = chains(image.diff_ids)
            for image_id in self._known.keys() - listed.keys():
                del self._known[image_id]
        return tuple(listed.values())

    def shared(self, image: LocalImage) -> int:
        """How many of an inspected image's layers another image has too: its lowest ones."""
        own = chains(image.diff_ids)
        return max(
            (
                _common(own, others)
                for image_id, others in self._known.items()
                if image_id != image.image_id
            ),
            default=0,
        )

    def held(self, diff_ids: Sequence[str]) -> int:
        """How many of these layers some image has: the lowest ones."""
        wanted = chains(diff_ids)
        return max((_common(wanted, there) for there in self._known.values()), default=0)


def chains(diff_ids: Sequence[str]) -> tuple[bytes, ...]:
    """One digest per layer, of its own content and all below it."""
    made: list[bytes] = []
    below = b""
    for diff_id in diff_ids:
        below = hashlib.sha256(below + diff_id.encode()).digest()
        made.append(below)
    return tuple(made)


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Layers at the lower end of both. Where a chain is the same, so is everything below."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length
