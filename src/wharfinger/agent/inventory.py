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
        self.nudged = asyncio.Event()
        self._engine = engine
        self._news = news
        self._asked = ""
        self.current: Inventory | None = None
        """The last listing; None before the first."""

    @property
    def fresh(self) -> Inventory | None:
        """The last listing, unless one begun later was asked for."""
        listed = self.current
        return listed if listed is not None and listed.asked == self._asked else None

    def ask(self, mark: str) -> None:
        """Only a listing begun from now on is fresh, unless this mark has been answered."""
        if self._asked != mark:
            self._asked = mark
            self.nudged.set()

    async def refresh(self) -> None:
        """List them now."""
        asked = self._asked
        listing = inventory_of(await self._engine.images(), asked)
        if self.current != listing:
            self.current = listing
            self._news.set()

    def lost(self) -> None:
        """The engine does not answer: the images are taken to be still there."""


def inventory_of(images: list[LocalImage], asked: str = "") -> Inventory:
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
    version = hashlib.sha256(content.encode()).hexdigest()
    return Inventory(version=version, asked=asked, images=tuple(entries))
