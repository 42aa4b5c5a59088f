"""One pull of the engine, shared by every attempt at the same repository and root digest."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from wharfinger.agent.attempts import CANCELLED, Attempt, Attempts
from wharfinger.agent.engine.port import Engine, EngineError, LocalImage, RegistryCredentials
from wharfinger.agent.locks import Hold, KeyedLocks
from wharfinger.agent.presence import evidence_of, lacking, platform_of
from wharfinger.agent.progress import PullProgress
from wharfinger.agent.room import Room
from wharfinger.contracts.rpc import Credentials, PullOrder, PullPolicy
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.identity import tag_name
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference

log = structlog.get_logger()

PROBE_SECONDS: Final = 30.0
"""How often an engine is asked whether it lives while a pull is queued in it."""


class Pull:
    """Fetches the image, verifies it by inspect, and ends each of its attempts at the true end.

    Attempts join while it runs and may leave early; when the last one wants to leave, the pull is
    abandoned. `on_over` is called when nobody may join any more: when it is abandoned, and when it
    is `over`, in the same step in which its last attempt ends.
    """

    def __init__(
        self,
        reference: Reference,
        order: PullOrder,
        *,
        engine: Engine,
        locks: KeyedLocks,
        room: Room,
        attempts: Attempts,
        on_over: Callable[["Pull"], None],
        inactivity_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = uuid.uuid4().hex
        self.pinned = reference.pinned(order.root_digest)
        self.progress = PullProgress((layer.layer() for layer in order.layers), clock)
        self._order = order
        self._credentials = _shown(order.credentials)
        self._engine = engine
        self._locks = locks
        self._room = room
        self._attempts = attempts
        self._on_over = on_over
        self._inactivity_seconds = inactivity_seconds
        self._joined: list[Attempt] = []
        self._streaming = False
        self._concluding = False
        self._abandoned = False
        self.over = False
        self._was_there = False
        self._host = Platform("", "")
        self._task = asyncio.create_task(self._run(), name=f"pull {self.pinned}")
        self._task.add_done_callback(lambda _: self._end())  # cancelled before it ran

    def join(self, attempt: Attempt) -> None:
        """Work for this attempt as well."""
        assert not self.over
        self._joined.append(attempt)
        if self._streaming:
            self._attempts.started(attempt)

    async def leave(self, attempt: Attempt) -> None:
        """Return when the attempt has ended: aborted, or as the pull ended at the same moment.

        Others who wait for the pull keep it going. Once the engine is done it is concluded in any
        case, which takes a moment.
        """
        if attempt not in self._joined:
            return  # cancelled twice at once
        if not (self._concluding or self._abandoned):
            if len(self._joined) > 1:
                self._joined.remove(attempt)
                self._attempts.failed(attempt, CANCELLED)
                return
            self._abandon()
        await asyncio.wait({self._task})

    async def close(self) -> None:
        """Stop at once, wherever it is."""
        self._task.cancel()
        await asyncio.wait({self._task})

    def _abandon(self) -> None:
        self._abandoned = True
        self._on_over(self)
        self._task.cancel()

    async def _run(self) -> None:
        try:
            async with self._locks.hold(self._order.root_digest) as hold:
                complaint = await self._fetch()
                self._concluding = True
                await self._conclude(hold, complaint)
        except EngineError as error:
            self._end(error.failure)
        except asyncio.CancelledError:
            self._end()
            raise
        except Exception as error:
            log.exception("a pull met a defect", name=self.pinned)
            self._end(Failure(FailureClass.INTERNAL, "the agent met a defect", repr(error)))

    async def _fetch(self) -> Failure | None:
        """Have the engine pull unless it holds the image; what went wrong, as far as it is told."""
        description = await self._engine.describe()
        self._host = description.platform
        self._was_there = await self._engine.inspect(self.pinned) is not None
        if self._was_there:
            return None
        async with self._room.claim(self._order, description.store, self.progress):
            return await self._ask(self._inactivity_seconds or description.inactivity_seconds)

    async def _ask(self, limit: float) -> Failure | None:
        """Have the engine pull; what went wrong, as far as it is told."""
        self._streaming = True
        for attempt in self._joined:
            self._attempts.started(attempt)
        self.progress.streaming()
        try:
            await self._stream(limit)
        except EngineError as error:
            return error.failure
        except asyncio.CancelledError:
            if not self._abandoned:
                raise
            # the connection is closed; go on to see whether the engine was done at this moment
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            return CANCELLED
        return None

    async def _stream(self, limit: float) -> None:
        """Follow the engine's pull to its end, as long as it lives."""
        clock = asyncio.get_running_loop().time
        try:
            async with (
                asyncio.timeout(limit) as watchdog,
                self._ended_with_engine(watchdog),
                self._engine.pull(self.pinned, self._credentials) as events,
            ):
                async for event in events:
                    alive = self.progress.saw(event)
                    if self.progress.queued:
                        watchdog.reschedule(None)
                    elif alive:
                        watchdog.reschedule(clock() + limit)
        except TimeoutError as error:
            raise EngineError(
                Failure(
                    FailureClass.STALLED,
                    f"nothing was downloaded or extracted for {limit:g} s; the pull was aborted",
                )
            ) from error

    @asynccontextmanager
    async def _ended_with_engine(self, watchdog: asyncio.Timeout) -> AsyncIterator[None]:
        """Let a queued pull, which may be silent for any time, expire when its engine is dead."""

        async def probe() -> None:
            while True:
                await asyncio.sleep(PROBE_SECONDS)
                try:
                    if self.progress.queued:
                        await self._engine.describe()
                except EngineError:
                    watchdog.reschedule(asyncio.get_running_loop().time())
                    return

        probing = asyncio.create_task(probe(), name=f"probe {self.pinned}")
        try:
            yield
        finally:
            probing.cancel()
            await asyncio.wait({probing})

    async def _conclude(self, hold: Hold, complaint: Failure | None) -> None:
        """See what the engine holds now, whatever the stream said."""
        self.progress.verifying()
        try:
            image = await self._engine.inspect(self.pinned)
        except EngineError as error:
            self._end(complaint or error.failure)
            return
        if image is None and complaint is not None:
            self._end(complaint)
            return
        if image is not None:
            await hold.extend(image.image_id)
            if not self._host.runs(platform_of(image)):
                await self._tidy()
            else:
                self.progress.verified()
        while self._joined:
            await self._settle(self._joined[0], image)
            del self._joined[0]
        self._end()

    async def _tidy(self) -> None:
        """Take away what this pull brought and this host cannot run."""
        if self._was_there:
            return
        try:
            await self._engine.untag(self.pinned)
        except EngineError as error:
            log.warning("an image of a foreign platform stays", name=self.pinned, error=str(error))

    async def _settle(self, attempt: Attempt, image: LocalImage | None) -> None:
        """Name the image as the attempt's reference does, verify, and end the attempt."""
        order, reference = attempt.order, attempt.reference
        try:
            if image is not None and self._host.runs(platform_of(image)):
                await self._name(order, reference, image)
                image = await self._engine.inspect(self.pinned)
        except EngineError as error:
            self._attempts.failed(attempt, error.failure)
            return
        lack = lacking(image, order, reference, self._host)
        if lack is not None:
            self._attempts.failed(attempt, lack)
            return
        assert image is not None, "what is absent lacks its digest"
        self._attempts.finished(attempt, evidence_of(image))

    async def _name(self, order: PullOrder, reference: Reference, image: LocalImage) -> None:
        """Set the tag: a preload moves it, a session sets it where there is none.

        A reference without a tag gets none, although dockerd's `image prune` takes such images
        for dangling: an invented name would show up among the host's images, and would have to be
        known to whoever removes them. A prune shows in the inventory within seconds.
        """
        tag = tag_name(reference)
        if tag is None or tag in image.tags:
            return
        if order.policy is PullPolicy.PRELOAD or await self._engine.inspect(tag) is None:
            await self._engine.tag(self.pinned, tag)

    def _end(self, failure: Failure = CANCELLED) -> None:
        """The pull is over; attempts that have not ended yet end with this failure."""
        if self.over:
            return
        self.over = True
        for attempt in self._joined:
            self._attempts.failed(attempt, failure)
        self._joined.clear()
        self._on_over(self)


def _shown(credentials: Credentials | None) -> RegistryCredentials | None:
    if credentials is None:
        return None
    return RegistryCredentials(credentials.username, credentials.password.get_secret_value())
