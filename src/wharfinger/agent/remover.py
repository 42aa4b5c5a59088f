"""Takes references away where nothing uses them. Never forced, and never asks the registry."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from wharfinger.agent.doomed import doomed, resolve
from wharfinger.agent.engine.port import Container, Engine, EngineError, LocalImage
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.recent import Recent
from wharfinger.contracts.rpc import RemovalAnswer, RemovalOrder, RemovalOutcome
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.errors import InvalidReference
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import Reference

log = structlog.get_logger()

NAMED_CONTAINERS: Final = 10


class Remover:
    """The agent's removals, each a task of its own: repeating an order asks for its state."""

    def __init__(
        self, engine: Engine, locks: KeyedLocks, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._locks = locks
        self._running: dict[str, asyncio.Task[None]] = {}
        self._ended: Recent[RemovalAnswer] = Recent(clock)

    async def remove_images(
        self, orders: Sequence[RemovalOrder], deadline_seconds: float
    ) -> list[RemovalAnswer]:
        """One answer per order: how it ended, or `running` at the deadline."""
        working = [task for task in map(self._work, orders) if task is not None]
        if working:
            await asyncio.wait(working, timeout=deadline_seconds)
        return [self._answer(order.removal_id) for order in orders]

    async def close(self) -> None:
        """Stop all removals; what the engine was asked already it may still do."""
        working = list(self._running.values())
        for task in working:
            task.cancel()
        if working:
            await asyncio.wait(working)

    def _work(self, order: RemovalOrder) -> asyncio.Task[None] | None:
        if self._ended.get(order.removal_id) is not None:
            return None
        task = self._running.get(order.removal_id)
        if task is None:
            task = asyncio.create_task(self._run(order), name=f"remove {order.reference}")
            self._running[order.removal_id] = task
        return task

    def _answer(self, removal_id: str) -> RemovalAnswer:
        running = RemovalAnswer(removal_id=removal_id, outcome=RemovalOutcome.RUNNING)
        return self._ended.get(removal_id) or running

    async def _run(self, order: RemovalOrder) -> None:
        try:
            answer = await self._remove(order)
        except InvalidReference as error:
            answer = _failed(order, Failure(FailureClass.INVALID_REFERENCE, error.message))
        except EngineError as error:
            answer = _failed(order, error.failure)
        except Exception as error:
            log.exception("a removal met a defect", reference=order.reference)
            answer = _failed(
                order, Failure(FailureClass.INTERNAL, "the agent met a defect", repr(error))
            )
        finally:
            del self._running[order.removal_id]
        self._ended.keep(order.removal_id, answer)

    async def _remove(self, order: RemovalOrder) -> RemovalAnswer:
        """Resolve, lock, look again, and remove; once more when the image changed in between."""
        reference = Reference.parse(order.reference)
        image = await resolve(self._engine, reference)
        while image is not None:
            async with self._locks.hold(*_keys(image)):
                locked, image = image, await resolve(self._engine, reference)
                if image is not None and _keys(image) == _keys(locked):
                    if order.image_id not in (None, image.image_id):
                        return _ended(order, RemovalOutcome.CHANGED)
                    kept_by = await self._take_away(reference, image)
                    return _ended(order, RemovalOutcome.REMOVED, kept_by)
        return _ended(order, RemovalOutcome.ABSENT)

    async def _take_away(self, reference: Reference, image: LocalImage) -> tuple[str, ...]:
        """Remove under the lock; the names that still hold the image."""
        users = [
            each for each in await self._engine.containers() if each.image_id == image.image_id
        ]
        if users:
            raise EngineError(_in_use(reference, users))
        for name in doomed(reference, image):
            await self._engine.untag(name)
        if await resolve(self._engine, reference) is not None:
            raise EngineError(
                Failure(
                    FailureClass.ENGINE_ERROR,
                    f"the engine accepted the removal of {reference}, but still holds it",
                )
            )
        rest = await self._engine.inspect(image.image_id)
        return (*rest.tags, *rest.digests) if rest else ()


def _keys(image: LocalImage) -> frozenset[str]:
    """What locks the image: its id, and every digest a pull may know it by."""
    return frozenset({image.image_id, *(each.rpartition("@")[2] for each in image.digests)})


def _in_use(reference: Reference, users: list[Container]) -> Failure:
    shown = [f"{each.name or each.container_id[:12]} ({each.state})" for each in users]
    more = len(shown) - NAMED_CONTAINERS
    names = ", ".join(shown[:NAMED_CONTAINERS]) + (f" and {more} more" if more > 0 else "")
    return Failure(
        FailureClass.IN_USE,
        f"{reference} is used by {names}: remove the container first"
        if len(shown) == 1
        else f"{reference} is used by {len(shown)} containers: {names}",
        "\n".join(each.container_id for each in users[:NAMED_CONTAINERS]),
    )


def _ended(
    order: RemovalOrder, outcome: RemovalOutcome, kept_by: tuple[str, ...] = ()
) -> RemovalAnswer:
    return RemovalAnswer(removal_id=order.removal_id, outcome=outcome, kept_by=kept_by)


def _failed(order: RemovalOrder, failure: Failure) -> RemovalAnswer:
    return RemovalAnswer(
        removal_id=order.removal_id,
        outcome=RemovalOutcome.FAILED,
        failure=FailureReport.of(failure),
    )
