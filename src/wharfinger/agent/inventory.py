"""The images the engine holds."""

import asyncio
import hashlib
import json
from typing import ClassVar

from wharfinger.agent.engine.port import Engine, LocalImage
from wharfinger.contracts.ingest import Inventory, InventoryImage


class ImageListing:
    """Lists the engine's images. `news` is set when they differ from before."""

    debounce_seconds: ClassVar[float] = 0.2
    """A pull and a removal make several changes; a list may cost seconds."""
    relist_seconds: ClassVar[float] = 60.0
    again_seconds: ClassVar[float] = 0.0

    def __init__(self, engine: Engine, news: asyncio.Event) -> None:
        self._engine = engine
        self._news = news
        self.current: Inventory | None = None
        """The last listing; None before the first."""

    async def refresh(self) -> None:
        """List them now."""
        listing = inventory_of(await self._engine.images())
        if self.current is None or self.current.version != listing.version:
            self.current = listing
            self._news.set()

    def lost(self) -> None:
        """The engine does not answer: the images are taken to be still there."""


def inventory_of(images: list[LocalImage]) -> Inventory:
    """A listing in a fixed order, its version made from its content."""
    entries = sorted(
        (
            InventoryImage(
                image_id=image.image_id,
                tags=tuple(sorted(image.tags)),
                digests=tuple(sorted(image.digests)),
                size=image.size,
            )
            for image in images
        ),
        key=lambda entry: entry.image_id,
    )
    content = json.dumps([entry.to_wire() for entry in entries], sort_keys=True)
    return Inventory(version=hashlib.sha256(content.encode()).hexdigest(), images=tuple(entries))
