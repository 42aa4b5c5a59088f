"""Looks into what pulls would meet and take, and changes nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from wharfinger.agent.engine.port import Engine, EngineDescription, EngineError, LocalImage
from wharfinger.agent.in_time import in_time, within
from wharfinger.agent.presence import evidence_of
from wharfinger.agent.room import Missing, Room
from wharfinger.contracts.rpc import PullOrder, PullSurvey, SurveyPullsReply
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.disk import needed
from wharfinger.domain.errors import InvalidReference
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.identity import tag_name
from wharfinger.domain.references import Reference


class PullSurveyor:
    """What the engine holds at the moment of asking, whatever is being pulled. `describe` tells who
    the engine is."""

    def __init__(
        self, engine: Engine, room: Room, describe: Callable[[], Awaitable[EngineDescription]]
    ) -> None:
        self._engine = engine
        self._room = room
        self._describe = describe

    async def survey(
        self, orders: Sequence[PullOrder], deadline_seconds: float
    ) -> SurveyPullsReply:
        """One survey per order, each as if it were the only one, and the disk."""
        until = within(deadline_seconds)
        try:
            async with in_time(until):
                store, disk = (await self._describe()).store, await self._engine.disk()
                missing = await self._room.missing(orders)
        except EngineError as error:
            return SurveyPullsReply(surveys=tuple(_failed(each, error.failure) for each in orders))
        looks = (
            self._look(order, lacks, store, until)
            for order, lacks in zip(orders, missing, strict=True)
        )
        surveys = await asyncio.gather(*looks)
        return SurveyPullsReply(surveys=tuple(surveys), disk=disk)

    async def _look(
        self, order: PullOrder, missing: Missing, store: str, until: float
    ) -> PullSurvey:
        try:
            reference = Reference.parse(order.reference)
            async with in_time(until):
                image = await self._find(order, reference)
        except InvalidReference as error:
            return _failed(order, Failure(FailureClass.INVALID_REFERENCE, error.message))
        except EngineError as error:
            return _failed(order, error.failure)
        return PullSurvey(
            attempt_id=order.attempt_id,
            evidence=evidence_of(image) if image else None,
            bytes_missing=missing.size,
            bytes_needed=needed(tuple(missing.layers.values()), store),
            layers_known=missing.layers_known,
        )

    async def _find(self, order: PullOrder, reference: Reference) -> LocalImage | None:
        """The image that is ordered, or else the one that has its tag now."""
        image = await self._engine.inspect(reference.pinned(order.root_digest))
        tag = tag_name(reference)
        return await self._engine.inspect(tag) if image is None and tag else image


def _failed(order: PullOrder, failure: Failure) -> PullSurvey:
    return PullSurvey(attempt_id=order.attempt_id, failure=FailureReport.of(failure))
