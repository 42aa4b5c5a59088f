"""One run of one task by this manager: its body, its outcome, and what may interrupt it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from enum import Enum, auto
from typing import Any

import structlog

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.states import TASK_TRANSITIONS, TaskStatus
from wharfinger.manager.background.port import Item, LostTask, TaskResult
from wharfinger.manager.background.reporter import Reporter
from wharfinger.manager.background.store import Taken

log = structlog.get_logger()


class _Interruption(Enum):
    CANCELLED = auto()
    """Asked for by somebody. Only ad hoc coroutines are interrupted so."""
    STOPPED = auto()
    """The manager stops by plan: the end of the run, but not by itself of the task."""
    LOST = auto()
    """The task is another's by now, or has ended without this run."""


class Run:
    """A body at work, and its outcome. A named function gets this as its `TaskRun`.

    The outcome stands apart from the coroutine: a scheduler may drop that before its first step,
    and a body that swallows its cancellation may be waited for no longer.
    """

    def __init__(
        self,
        taken: Taken,
        reporter: Reporter,
        body: Callable[["Run"], Awaitable[TaskResult | None]],
        *,
        scheduled: bool,
    ) -> None:
        self.task_id = taken.task_id
        self.name = taken.name
        self.named = taken.function is not None
        self.epoch = taken.epoch
        self.arguments: Mapping[str, Any] = taken.arguments
        self.reporter = reporter
        self.outcome: asyncio.Future[TaskResult | None] = asyncio.Future()
        """How the body ended; None when it is not for this run to end the task."""
        self._body = body
        self._scheduled = scheduled
        self._work: asyncio.Task[Any] | None = None
        self._interruption: _Interruption | None = None
        self._cancel = asyncio.Event()
        if taken.cancel_requested:
            self._cancel.set()

    async def __call__(
        self,
        *,
        current: int | None = None,
        maximum: int | None = None,
        message: str | None = None,
        items: Sequence[Item] = (),
    ) -> None:
        """Report; what is None stays as it was. `items` are those that changed."""
        self.reporter.update(current=current, maximum=maximum, message=message, items=items)

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked to cancel."""
        return self._cancel.is_set()

    async def wait_cancel_requested(self) -> None:
        """Return once `cancel_requested` is true."""
        await self._cancel.wait()

    @property
    def lost(self) -> bool:
        """Whether the task is no longer this run's."""
        return self._interruption is _Interruption.LOST

    def start(self) -> None:
        """Do the work in a task of its own."""
        self._work = asyncio.create_task(self.work(), name=f"task {self.task_id}")

    def work(self) -> Coroutine[Any, Any, None]:
        """The work as a coroutine, for a scheduler. It raises nothing but its cancellation."""
        return _Droppable(self._perform(), dropped=self._settle_interrupted)

    def request_cancel(self) -> None:
        """Somebody asked to cancel: tell the function, interrupt the coroutine."""
        if not self._cancel.is_set():
            self._cancel.set()
            if not self.named:
                self._interrupt(_Interruption.CANCELLED)

    def stop(self) -> None:
        """The manager stops. A scheduler of the caller's is closed then, and cancels by itself."""
        self._interrupt(_Interruption.STOPPED, cancel=not self._scheduled)

    def lose(self) -> None:
        """The task is no longer this run's: interrupt it, write nothing more."""
        self._interrupt(_Interruption.LOST)

    def abandon(self) -> None:
        """Wait no longer for a body that does not heed its cancellation."""
        if not self.outcome.done():
            log.error("task does not heed its cancellation", task=self.task_id, name=self.name)
            self._settle(None)
        if self._work is not None:
            self._work.cancel()

    def _interrupt(self, why: _Interruption, *, cancel: bool = True) -> None:
        if self._interruption is why:
            return  # told once; what it does to heed that is not to be interrupted again
        self._interruption = why
        if self._work is None:
            self._settle_interrupted()
        elif cancel:
            self._work.cancel()

    async def _perform(self) -> None:
        if self.outcome.done():
            return
        self._work = asyncio.current_task()
        try:
            result = await self._body(self)
        except asyncio.CancelledError:
            self._settle_interrupted()
            raise
        except LostTask as error:
            log.info("run was lost", task=self.task_id, why=error.message)
            self._settle(None)
        except Exception as error:
            self._settle(_defect(f"the task met a defect: {error!r}"))
            log.exception("task met a defect", task=self.task_id, name=self.name)
        else:
            self._settle(result and _checked(result))

    def _settle_interrupted(self) -> None:
        match self._interruption:
            case _Interruption.CANCELLED:
                self._settle(TaskResult(TaskStatus.CANCELLED, "cancelled"))
            case None:
                self._settle(_defect("its coroutine was cancelled from outside"))
            case _:
                self._settle(None)

    def _settle(self, result: TaskResult | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(result)


class _Droppable(Coroutine[Any, Any, None]):
    """A coroutine that tells when it is dropped before its first step.

    What is cancelled so early has the exception thrown into a coroutine that has not begun, so
    nothing inside it can notice. A closed scheduler does this to all it had queued.
    """

    def __init__(
        self, coroutine: Coroutine[Any, Any, None], *, dropped: Callable[[], None]
    ) -> None:
        self._coroutine = coroutine
        self._dropped = dropped
        self._begun = False

    def send(self, value: Any, /) -> Any:
        self._begun = True
        return self._coroutine.send(value)

    def throw(self, error: Any, /, *rest: Any) -> Any:
        self._tell()
        return self._coroutine.throw(error, *rest)

    def close(self) -> None:
        self._tell()
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._coroutine.__await__()

    def _tell(self) -> None:
        if not self._begun:
            self._begun = True
            self._dropped()


def _checked(result: TaskResult) -> TaskResult:
    if result.status in TASK_TRANSITIONS.terminal:
        return result
    return _defect(f"the task ended without an end: {result.status}")


def _defect(message: str) -> TaskResult:
    return TaskResult(TaskStatus.FAILED, message, Failure(FailureClass.INTERNAL, message))
