"""How the engine is, and the one subscription to its events that keeps every listing current."""

import asyncio
import platform
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import structlog

from wharfinger.agent.backoff import Backoff
from wharfinger.agent.engine.port import Change, Engine, EngineDescription, EngineError
from wharfinger.contracts.ingest import EngineFacts
from wharfinger.domain.platforms import Platform

log = structlog.get_logger()


class Listing(Protocol):
    """What is known of one kind of things an engine holds."""

    @property
    def nudged(self) -> asyncio.Event:
        """Set when the things may have changed: it is time to list."""

    @property
    def debounce_seconds(self) -> float:
        """How long to wait for more changes before listing."""

    @property
    def relist_seconds(self) -> float:
        """When to list without a change, as a safety net: a subscription may be dead without
        anyone noticing."""

    @property
    def again_seconds(self) -> float:
        """How long after a change to list once more, since the engine's lists lag behind its
        events; 0 is not at all."""

    async def refresh(self) -> None:
        """List; raises `EngineError`."""

    def lost(self) -> None:
        """The engine does not answer."""


class EngineWatch:
    """Refreshes each listing when the engine says that its things may have changed.

    `news` is set when the engine's state differs from before. Trouble with the engine is recorded
    and waited out.
    """

    def __init__(
        self, engine: Engine, news: asyncio.Event, listings: Mapping[Change, Listing]
    ) -> None:
        self._engine = engine
        self._news = news
        self._listings = listings
        self._problem = ""
        self.description: EngineDescription | None = None
        """The engine as last seen, which may be some time ago."""

    @property
    def facts(self) -> EngineFacts:
        """The engine as last seen, with its present problem; its words are empty before that."""
        seen = self.description
        return EngineFacts(
            kind=seen.kind if seen else "",
            version=seen.version if seen else "",
            store=seen.store if seen else "",
            problem=self._problem,
        )

    @property
    def platform(self) -> Platform:
        """What the engine runs; this machine's own platform until the engine has answered."""
        if self.description:
            return self.description.platform
        return Platform.parse(platform.system(), platform.machine())

    async def describe(self) -> EngineDescription:
        """Who the engine is. It is asked again only after trouble: another one may answer then.

        Raises `EngineError`.
        """
        if self.description is not None and not self._problem:
            return self.description
        return await self._engine.describe()

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
            except* EngineError as errors:
                self._trouble(errors.exceptions[0])
            await backoff.wait()

    async def _follow(self, backoff: Backoff) -> None:
        """List on every nudge, until the subscription ends."""
        self._describe(await self._engine.describe())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name="engine events")
            for change, listing in self._listings.items():
                group.create_task(self._keep(listing, backoff), name=f"engine {change}")

    async def _listen(self) -> None:
        async for change in self._engine.changes():
            self._listings[change].nudged.set()

    async def _keep(self, listing: Listing, backoff: Backoff) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(listing.relist_seconds):
                    await listing.nudged.wait()
            await asyncio.sleep(listing.debounce_seconds)
            changed = listing.nudged.is_set()
            listing.nudged.clear()
            await listing.refresh()
            if changed and listing.again_seconds:
                await asyncio.sleep(listing.again_seconds)
                await listing.refresh()
            backoff.reset()

    def _describe(self, description: EngineDescription) -> None:
        if self._problem or self.description != description:
            self._news.set()
        self.description, self._problem = description, ""

    def _trouble(self, error: Exception) -> None:
        problem = str(error)
        for listing in self._listings.values():
            listing.lost()
        if self._problem != problem:
            log.warning("the engine does not answer", problem=problem)
            self._problem = problem
            self._news.set()
