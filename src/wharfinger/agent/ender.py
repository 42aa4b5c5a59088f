"""Stops the container of one kernel, and takes it away."""

import base64
from collections.abc import Awaitable, Callable

import structlog

from wharfinger.agent.containers import ContainerListing
from wharfinger.agent.engine.port import Engine, EngineError
from wharfinger.agent.kernel_log import KernelLogs
from wharfinger.contracts.rpc import (
    LOG_LIMIT,
    EndAnswer,
    EndOrder,
    EndOutcome,
    KernelContainer,
    KernelLog,
    KernelRemovalAnswer,
)
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.failures import Failure, FailureClass

log = structlog.get_logger()


class Ender:
    """Never forced. A container that is being made is waited for with `made`, given its kernel."""

    def __init__(
        self,
        engine: Engine,
        *,
        containers: ContainerListing,
        logs: KernelLogs,
        made: Callable[[str], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._containers = containers
        self._logs = logs
        self._made = made

    async def end(self, order: EndOrder) -> EndAnswer:
        """How it ended: nothing of it runs any more, or why the engine cannot stop it."""
        try:
            return await self._end(order)
        except EngineError as error:
            failure = error.failure
        except Exception as error:
            log.exception("the end of a kernel met a defect", kernel=order.kernel_id)
            failure = _defect(error)
        return EndAnswer(
            kernel_id=order.kernel_id,
            outcome=EndOutcome.FAILED,
            failure=FailureReport.of(failure),
        )

    async def remove(self, kernel_id: str) -> KernelRemovalAnswer:
        """Without a failure once there is no container."""
        try:
            await self._remove(kernel_id)
        except EngineError as error:
            failure = error.failure
        except Exception as error:
            log.exception("the removal of a kernel met a defect", kernel=kernel_id)
            failure = _defect(error)
        else:
            return KernelRemovalAnswer(kernel_id=kernel_id)
        return KernelRemovalAnswer(kernel_id=kernel_id, failure=FailureReport.of(failure))

    async def _end(self, order: EndOrder) -> EndAnswer:
        await self._made(order.kernel_id)
        container = await self._containers.look(order.kernel_id)
        if container is not None and not container.began:
            await self._engine.remove_container(container.container_id)
            container = await self._containers.look(order.kernel_id)
        if container is not None and not container.ended:
            container = await self._stop(order, container)
        if container is None:
            return EndAnswer(kernel_id=order.kernel_id, outcome=EndOutcome.ABSENT)
        for double in self._containers.doubles(container):
            await self._engine.stop_container(double, order.grace_seconds)
            await self._engine.remove_container(double)
        return EndAnswer(
            kernel_id=order.kernel_id,
            outcome=EndOutcome.ENDED,
            container=container,
            log=await self._log(container) if order.want_log else None,
        )

    async def _stop(self, order: EndOrder, container: KernelContainer) -> KernelContainer | None:
        """Stop it: what is left of it. Only its end counts, whatever the engine said."""
        trouble = EngineError(_STILL_RUNS)
        try:
            await self._engine.stop_container(container.container_id, order.grace_seconds)
        except EngineError as error:
            trouble = error
        left = await self._containers.look(order.kernel_id)
        if left is not None and not left.ended:
            raise trouble
        return left

    async def _log(self, container: KernelContainer) -> KernelLog | None:
        """The end of its output; None when an engine that answers cannot show it: an end is not
        held up by a log that nobody can read."""
        try:
            last = await self._logs.tail(container.container_id, LOG_LIMIT)
        except EngineError as error:
            await self._containers.look(container.kernel_id)
            log.warning("a log cannot be read", kernel=container.kernel_id, problem=error.message)
            return None
        return KernelLog(data=base64.b64encode(last.data), truncated=last.truncated)

    async def _remove(self, kernel_id: str) -> None:
        await self._made(kernel_id)
        container = await self._containers.look(kernel_id)
        if container is None:
            return
        if container.began and not container.ended:
            raise EngineError(
                Failure(FailureClass.IN_USE, "the container still runs: end its kernel first")
            )
        await self._engine.remove_container(container.container_id)
        left = await self._containers.look(kernel_id)
        if left is not None:
            raise EngineError(
                Failure(
                    FailureClass.ENGINE_ERROR,
                    "the engine accepted the container's removal, but still holds it",
                    left.problem,
                )
            )


_STILL_RUNS = Failure(
    FailureClass.ENGINE_ERROR, "the engine says that it stopped the container, but it still runs"
)


def _defect(error: Exception) -> Failure:
    return Failure(FailureClass.INTERNAL, "the agent met a defect", repr(error))
