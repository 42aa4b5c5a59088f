"""Makes the container of one kernel, and starts it."""

import asyncio
from contextlib import AsyncExitStack
from typing import Final

import structlog

from wharfinger.agent.backoff import Backoff
from wharfinger.agent.containers import ContainerListing
from wharfinger.agent.devices import Devices
from wharfinger.agent.engine.port import (
    ContainerSpec,
    Engine,
    EngineError,
    ImageAbsent,
    NameTaken,
    Unanswered,
)
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.ours import Ours, container_name
from wharfinger.agent.recent import Recent
from wharfinger.contracts.rpc import CreateAnswer, CreateOutcome, KernelOrder
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.failures import Failure, FailureClass

log = structlog.get_logger()

AT_ONCE: Final = 8
"""Containers that are made at the same time."""
LATE_SECONDS: Final = 5.0
"""How long an engine answers before what it was asked earlier counts as not done: dockerd, stopped
and let go, made a container 1.5 s after its first answer."""


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
        made_before = await self._containers.look(order.kernel_id)
        async with AsyncExitStack() as place:
            if made_before is None:
                async with self._locks.share(order.image_id):
                    await place.enter_async_context(self._room)
                    if self._may_not(order):
                        return
                    container_id = await self._make(order)
            else:
                await place.enter_async_context(self._room)
                container_id = made_before.container_id
            # the order to end it may have come meanwhile; and a process is never run twice
            if not (self._may_not(order) or (made_before is not None and made_before.began)):
                await self._engine.start_container(container_id)

    async def _make(self, order: KernelOrder) -> str:
        """Make the container, or find it made meanwhile and not begun: its id."""
        if await self._engine.inspect(order.image_id) is None:
            raise _image_gone(order)
        try:
            async with self._devices.chosen(order.gpu) as gpus:
                return await self._engine.create_container(self._spec(order, gpus))
        except NameTaken:
            made_meanwhile = await self._containers.look(order.kernel_id)
            if made_meanwhile is None or made_meanwhile.began:
                raise
            return made_meanwhile.container_id

    async def _settle(self, order: KernelOrder, trouble: EngineError | None) -> CreateAnswer:
        """See what there is. What never began is removed; tried until the engine tells for
        certain."""
        backoff, lateness = Backoff(), Lateness(awaited=isinstance(trouble, Unanswered))
        while True:
            try:
                container = await self._containers.look(order.kernel_id)
                if container is not None and not container.began:
                    lateness.came()
                    await self._engine.remove_container(container.container_id)
                    container = await self._containers.look(order.kernel_id)
                if container is None and not lateness.may_come():
                    return self._absent(order, trouble)
                if container is not None and container.began:
                    return CreateAnswer(
                        kernel_id=order.kernel_id,
                        outcome=CreateOutcome.STARTED,
                        container=container,
                    )
            except EngineError as error:
                lateness.unanswered()
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


class Lateness:
    """Whether a container may still come that was asked for without an answer: an engine that was
    held up does late what it was asked meanwhile."""

    def __init__(self, *, awaited: bool) -> None:
        self._awaited = awaited
        self._answers_since: float | None = None

    def came(self) -> None:
        """It came; there is no second one."""
        self._awaited = False

    def unanswered(self) -> None:
        """The engine does not answer now."""
        self._answers_since = None

    def may_come(self) -> bool:
        """The engine answers, and shows no container: whether one may come."""
        now = asyncio.get_running_loop().time()
        if self._answers_since is None:
            self._answers_since = now
        return self._awaited and now - self._answers_since < LATE_SECONDS


_VANISHED: Final = Failure(
    FailureClass.ENGINE_ERROR, "the container was removed by others as it was started"
)


def _image_gone(order: KernelOrder) -> ImageAbsent:
    message = f"{order.reference} is no longer on this host"
    return ImageAbsent(Failure(FailureClass.NOT_FOUND, message, order.image_id))
