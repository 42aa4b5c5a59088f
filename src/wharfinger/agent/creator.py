"""Makes the container of one kernel, and starts it."""

import asyncio
from typing import Final

import structlog

from wharfinger.agent.backoff import Backoff
from wharfinger.agent.containers import ContainerListing
from wharfinger.agent.devices import Devices
from wharfinger.agent.engine.port import ContainerSpec, Engine, EngineError, ImageAbsent, NameTaken
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.ours import Ours, container_name
from wharfinger.agent.recent import Recent
from wharfinger.contracts.rpc import CreateAnswer, CreateOutcome, KernelContainer, KernelOrder
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.failures import Failure, FailureClass

log = structlog.get_logger()

AT_ONCE: Final = 8
"""Containers that are made at the same time."""


class Creator:
    """Creates by image id and starts. `stopped` are the kernels no container is made for any
    more."""

    def __init__(
        self,
        engine: Engine,
        *,
        locks: KeyedLocks,
        ours: Ours,
        containers: ContainerListing,
        devices: Devices,
        network: str,
        stopped: Recent[bool],
    ) -> None:
        self._engine = engine
        self._locks = locks
        self._ours = ours
        self._containers = containers
        self._devices = devices
        self._network = network
        self._stopped = stopped
        self._room = asyncio.Semaphore(AT_ONCE)

    async def create(self, order: KernelOrder) -> CreateAnswer:
        """How it ended, once that is certain: the container was seen to have begun, or to be
        absent."""
        await self._ours.known()
        trouble: EngineError | None = None
        try:
            async with self._room:
                await self._begin(order)
        except EngineError as error:
            trouble = error
        except Exception as error:
            log.exception("a create met a defect", kernel=order.kernel_id)
            defect = Failure(FailureClass.INTERNAL, "the agent met a defect", repr(error))
            trouble = EngineError(defect)
        return await self._settle(order, trouble)

    async def _begin(self, order: KernelOrder) -> None:
        if self._may_not(order):
            return
        container = await self._containers.look(order.kernel_id) or await self._make(order)
        # the order to end it may have come meanwhile; and a process is never run twice
        if container is not None and not container.began and not self._may_not(order):
            await self._engine.start_container(container.container_id)

    async def _make(self, order: KernelOrder) -> KernelContainer | None:
        """Make the container unless that is done by now; None when it is gone already."""
        async with self._locks.hold(order.image_id):
            if await self._engine.inspect(order.image_id) is None:
                raise _image_gone(order)
            try:
                async with self._devices.chosen(order.gpu) as gpus:
                    made = await self._engine.create_container(self._spec(order, gpus))
            except NameTaken:
                if made_before := await self._containers.look(order.kernel_id):
                    return made_before
                raise
        return await self._containers.look(order.kernel_id, made)

    async def _settle(self, order: KernelOrder, trouble: EngineError | None) -> CreateAnswer:
        """See what there is. What never began is removed; tried until the engine tells for
        certain."""
        backoff = Backoff()
        while True:
            try:
                container = await self._containers.look(order.kernel_id)
                if container is not None and not container.began:
                    await self._engine.remove_container(container.container_id)
                    container = await self._containers.look(order.kernel_id)
                if container is None:
                    return self._absent(order, trouble)
                if container.began:
                    return CreateAnswer(
                        kernel_id=order.kernel_id,
                        outcome=CreateOutcome.STARTED,
                        container=container,
                    )
            except EngineError as error:
                log.info("not known yet", kernel=order.kernel_id, problem=error.message)
            await backoff.wait()

    def _absent(self, order: KernelOrder, trouble: EngineError | None) -> CreateAnswer:
        if self._may_not(order):
            return CreateAnswer(kernel_id=order.kernel_id, outcome=CreateOutcome.ENDED)
        if isinstance(trouble, ImageAbsent):
            return CreateAnswer(kernel_id=order.kernel_id, outcome=CreateOutcome.IMAGE_GONE)
        failure = trouble.failure if trouble else _VANISHED
        return CreateAnswer(
            kernel_id=order.kernel_id,
            outcome=CreateOutcome.FAILED,
            failure=FailureReport.of(failure),
        )

    def _may_not(self, order: KernelOrder) -> bool:
        return self._stopped.get(order.kernel_id) is not None

    def _spec(self, order: KernelOrder, gpus: tuple[str, ...]) -> ContainerSpec:
        return ContainerSpec(
            name=container_name(order.kernel_id),
            image_id=order.image_id,
            labels=self._ours.labels(order, gpus),
            command=order.command,
            environment=order.environment,
            cpu=order.cpu,
            mem=order.mem,
            gpus=gpus,
            network=self._network,
        )


_VANISHED: Final = Failure(
    FailureClass.ENGINE_ERROR, "the container was removed by others as it was started"
)


def _image_gone(order: KernelOrder) -> ImageAbsent:
    message = f"{order.reference} is no longer on this host"
    return ImageAbsent(Failure(FailureClass.NOT_FOUND, message, order.image_id))
