"""Looks into what removals would meet and do, and changes nothing."""

import asyncio
from collections.abc import Sequence
from typing import Final

from wharfinger.agent.chains import LayerChains
from wharfinger.agent.doomed import doomed, resolve
from wharfinger.agent.engine.port import Container, Engine, EngineError, LocalImage
from wharfinger.agent.in_time import in_time, within
from wharfinger.agent.ours import Ours
from wharfinger.contracts.rpc import ImageUser, RemovalOrder, RemovalSurvey
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.errors import InvalidReference
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import Reference

_LAYERS_SHARE: Final = 0.6
"""Of the time there is: how much may pass before the layers of all images are known."""


class RemovalSurveyor:
    """What the engine holds at the moment of asking; no lock is waited for."""

    def __init__(self, engine: Engine, ours: Ours, chains: LayerChains) -> None:
        self._engine = engine
        self._ours = ours
        self._chains = chains

    async def survey(
        self, orders: Sequence[RemovalOrder], deadline_seconds: float, *, want_bytes: bool
    ) -> list[RemovalSurvey]:
        """One survey per order, each as if it were the only one."""
        until, layers_until = within(deadline_seconds), within(deadline_seconds * _LAYERS_SHARE)
        try:
            async with in_time(until):
                containers = await self._engine.containers()
        except EngineError as error:
            return [_failed(order, error.failure) for order in orders]
        if want_bytes:
            want_bytes = await self._knows_layers(layers_until)
        looks = (self._look(order, until, containers, want_bytes=want_bytes) for order in orders)
        return await asyncio.gather(*looks)

    async def _knows_layers(self, until: float) -> bool:
        """Whether it could be learnt in time which layers are shared."""
        try:
            async with in_time(until):
                await self._chains.refresh()
        except EngineError:
            return False
        return True

    async def _look(
        self,
        order: RemovalOrder,
        until: float,
        containers: Sequence[Container],
        *,
        want_bytes: bool,
    ) -> RemovalSurvey:
        try:
            reference = Reference.parse(order.reference)
            async with in_time(until):
                image = await resolve(self._engine, reference)
        except InvalidReference as error:
            return _failed(order, Failure(FailureClass.INVALID_REFERENCE, error.message))
        except EngineError as error:
            return _failed(order, error.failure)
        if image is None:
            return RemovalSurvey(removal_id=order.removal_id)
        going = doomed(reference, image)
        kept_by = tuple(name for name in (*image.tags, *image.digests) if name not in going)
        return RemovalSurvey(
            removal_id=order.removal_id,
            image_id=image.image_id,
            root_digests=tuple(sorted({each.rpartition("@")[2] for each in image.digests})),
            going=going,
            kept_by=kept_by,
            users=tuple(self._user(each) for each in containers if each.image_id == image.image_id),
            bytes_freed=await self._freed(image, kept_by, until) if want_bytes else None,
        )

    async def _freed(self, image: LocalImage, kept_by: Sequence[str], until: float) -> int | None:
        """Unpacked bytes of the layers that no other image has.

        The containerd store frees the compressed blobs too, and does not tell their sizes.
        """
        if kept_by:
            return 0
        try:
            async with in_time(until):
                sizes = await self._engine.layer_sizes(image)
        except EngineError:
            return None
        return None if sizes is None else sum(sizes[self._chains.shared(image) :])

    def _user(self, container: Container) -> ImageUser:
        return ImageUser(
            container_id=container.container_id,
            name=container.name,
            state=container.state,
            kernel_id=self._ours.kernel_of(container.labels),
        )


def _failed(order: RemovalOrder, failure: Failure) -> RemovalSurvey:
    return RemovalSurvey(removal_id=order.removal_id, failure=FailureReport.of(failure))
