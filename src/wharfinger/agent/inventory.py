"""What the engine holds, kept current from its events, and how the engine itself is."""

import asyncio
import hashlib
import json
import platform
from contextlib import suppress
from typing import Final

import structlog

from wharfinger.agent.backoff import Backoff
from wharfinger.agent.engine.port import Engine, EngineDescription, EngineError, LocalImage
from wharfinger.contracts.ingest import EngineFacts, Inventory, InventoryImage
from wharfinger.domain.platforms import Platform

log = structlog.get_logger()

DEBOUNCE_SECONDS: Final = 0.2
RELIST_SECONDS: Final = 60.0
"""A full listing as a safety net: a subscription may be dead without anyone noticing."""


class InventoryWatch:
    """Lists the engine's images when its events say that they may have changed.

    `news` is set when the listing or the engine's state differs from before. Trouble with the
    engine is recorded and waited out.
    """

    def __init__(
        self,
        engine: Engine,
        news: asyncio.Event,
        *,
        debounce_seconds: float = DEBOUNCE_SECONDS,
        relist_seconds: float = RELIST_SECONDS,
    ) -> None:
        self._engine = engine
        self._news = news
        self._debounce_seconds = debounce_seconds
        self._relist_seconds = relist_seconds
        self._description: EngineDescription | None = None
        self._problem = ""
        self.current: Inventory | None = None
        """The last listing; None before the first."""

    @property
    def facts(self) -> EngineFacts:
        """The engine as last seen, with its present problem; its words are empty before that."""
        seen = self._description
        return EngineFacts(
            kind=seen.kind if seen else "",
            version=seen.version if seen else "",
            store=seen.store if seen else "",
            problem=self._problem,
        )

    @property
    def platform(self) -> Platform:
        """What the engine runs; this machine's own platform until the engine has answered."""
        if self._description:
            return self._description.platform
        return Platform.parse(platform.system(), platform.machine())

    async def look(self) -> None:
        """Ask the engine once who it is; trouble is recorded."""
        try:
            self._describe(await self._engine.describe())
        except EngineError as error:
            self._trouble(error)

    async def run(self) -> None:
        """Follow the engine until cancelled."""
        backoff = Backoff()
        while True:
            try:
                await self._follow(backoff)
            except EngineError as error:
                self._trouble(error)
            await backoff.wait()

    async def _follow(self, backoff: Backoff) -> None:
        """List on every nudge, until the subscription ends."""
        self._describe(await self._engine.describe())
        nudged = asyncio.Event()
        listening = asyncio.create_task(self._listen(nudged), name="engine events")
        listening.add_done_callback(lambda _: nudged.set())
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._relist_seconds):
                        await nudged.wait()
                await asyncio.sleep(self._debounce_seconds)
                if listening.done():
                    break
                nudged.clear()
                self._listed(await self._engine.images())
                backoff.reset()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        await listening

    async def _listen(self, nudged: asyncio.Event) -> None:
        async for _ in self._engine.changes():
            nudged.set()

    def _listed(self, images: list[LocalImage]) -> None:
        listing = inventory_of(images)
        if self.current is None or self.current.version != listing.version:
            self.current = listing
            self._news.set()

    def _describe(self, description: EngineDescription) -> None:
        if self._problem or self._description != description:
            self._news.set()
        self._description, self._problem = description, ""

    def _trouble(self, error: EngineError) -> None:
        if self._problem != error.message:
            log.warning("the engine does not answer", problem=error.message)
            self._problem = error.message
            self._news.set()


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
