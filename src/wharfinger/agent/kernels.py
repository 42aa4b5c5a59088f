"""Takes orders about kernels: to make their containers, to end them and to take them away."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial

from wharfinger.agent.containers import ContainerListing
from wharfinger.agent.creator import Creator
from wharfinger.agent.devices import Devices
from wharfinger.agent.ender import Ender
from wharfinger.agent.engine.port import Engine
from wharfinger.agent.in_hand import InHand
from wharfinger.agent.kernel_log import KernelLogs
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.ours import Ours
from wharfinger.agent.recent import Recent
from wharfinger.contracts.rpc import (
    CreateAnswer,
    CreateOutcome,
    EndAnswer,
    EndOrder,
    EndOutcome,
    KernelOrder,
    KernelRemovalAnswer,
)
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.errors import UnknownId
from wharfinger.domain.failures import Failure, FailureClass


class Kernels:
    """The agent's kernels. What a call began goes on without it; a repeated call joins it, or is
    answered with the state the engine shows. Containers outlive the agent."""

    def __init__(
        self,
        engine: Engine,
        *,
        locks: KeyedLocks,
        ours: Ours,
        containers: ContainerListing,
        gpus: int = 0,
        network: str = "default",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._containers = containers
        self._stopped: Recent[bool] = Recent(clock)
        self._creations: InHand[CreateAnswer] = InHand(clock)
        self._endings: InHand[EndAnswer] = InHand(clock)
        self._removals: InHand[KernelRemovalAnswer] = InHand(clock)
        self._logs = KernelLogs(engine)
        self._creator = Creator(
            engine,
            locks=locks,
            ours=ours,
            containers=containers,
            devices=Devices(engine, ours, gpus),
            network=network,
            stopped=self._stopped,
        )
        self._ender = Ender(
            engine, containers=containers, logs=self._logs, made=self._creations.finished
        )

    def in_hand(self) -> tuple[str, ...]:
        """The kernels whose container is being made."""
        return self._creations.keys

    async def create(
        self, orders: Sequence[KernelOrder], deadline_seconds: float
    ) -> list[CreateAnswer]:
        """One answer per order: how it ended, or `creating` at the deadline."""
        work = {order.kernel_id: partial(self._creator.create, order) for order in orders}
        answers = await self._creations.ask(work, deadline_seconds)
        return [
            answers.get(order.kernel_id)
            or CreateAnswer(kernel_id=order.kernel_id, outcome=CreateOutcome.CREATING)
            for order in orders
        ]

    async def end(self, orders: Sequence[EndOrder], deadline_seconds: float) -> list[EndAnswer]:
        """One answer per order: how it ended, or `running` at the deadline. No container of these
        is begun from now on."""
        for order in orders:
            self._stop(order.kernel_id)
        work = {_ending(order): partial(self._ender.end, order) for order in orders}
        answers = await self._endings.ask(work, deadline_seconds)
        return [
            answers.get(_ending(order))
            or EndAnswer(kernel_id=order.kernel_id, outcome=EndOutcome.RUNNING)
            for order in orders
        ]

    async def remove(
        self, kernel_ids: Sequence[str], deadline_seconds: float
    ) -> list[KernelRemovalAnswer]:
        """One answer per kernel; a container that runs is refused. No container of these is begun
        from now on."""
        for kernel_id in kernel_ids:
            self._stop(kernel_id)
        work = {kernel_id: partial(self._ender.remove, kernel_id) for kernel_id in kernel_ids}
        answers = await self._removals.ask(work, deadline_seconds)
        return [answers.get(kernel_id) or _not_yet(kernel_id) for kernel_id in kernel_ids]

    async def log(
        self, kernel_id: str, *, tail_bytes: int, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """Its container's output, to be closed by the caller: see `KernelLogs.stream`.

        Raises `UnknownId` when it has no container, and `EngineError`.
        """
        container = await self._containers.look(kernel_id)
        if container is None:
            raise UnknownId(f"kernel {kernel_id} has no container here")
        return self._logs.stream(container.container_id, tail_bytes=tail_bytes, follow=follow)

    async def close(self) -> None:
        """Stop all work; what the engine was asked already it may still do."""
        await self._creations.close()
        await self._endings.close()
        await self._removals.close()

    def _stop(self, kernel_id: str) -> None:
        self._stopped.keep(kernel_id, answer=True)
        self._creations.drop(kernel_id)


def _ending(order: EndOrder) -> str:
    """Who wants the log does not join who does not."""
    return f"{order.kernel_id} {'with' if order.want_log else 'without'} log"


def _not_yet(kernel_id: str) -> KernelRemovalAnswer:
    failure = Failure(FailureClass.ENGINE_ERROR, "the engine has not removed the container yet")
    return KernelRemovalAnswer(kernel_id=kernel_id, failure=FailureReport.of(failure))
