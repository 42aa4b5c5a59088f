"""A task as plain lines: one per change of state, and now and then how far it is."""

from collections.abc import Callable
from typing import Final

from wharfinger.cli import words
from wharfinger.cli.display.layout import overall_rate, tally, time_left, waits
from wharfinger.client.shapes import Item, Task
from wharfinger.domain.states import TASK_TRANSITIONS

PROGRESS_SECONDS: Final = 5.0
_ENDED: Final = frozenset(TASK_TRANSITIONS.terminal)
_State = tuple[str, int]


class LineLog:
    """Turns each new view of a task into the lines that are new."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._states: dict[tuple[str, str], _State] = {}
        self._told_at: float | None = None
        self._told = ""
        self._waits = ""
        self._cancelling = False

    def update(self, task: Task) -> list[str]:
        """The lines to print for `task` as it is now."""
        lines = []
        if self._told_at is None:
            lines.append(f"{words.plain(task['name'])} {task['id']}: {task['status']}")
            self._told_at = self._clock()
        if task["cancelRequested"] and not self._cancelling and task["status"] not in _ENDED:
            self._cancelling = True
            lines.append("cancelling")
        for item in task["items"]:
            key, state = (item["agentId"], item["reference"]), (item["status"], item["attempts"])
            before = self._states.get(key, ("queued", 0))
            self._states[key] = state
            if state != before:
                lines += _change(item, before)
        if waits(task) and task["message"] != self._waits:
            self._waits = task["message"]
            lines.append(words.plain(self._waits))
        if self._clock() - self._told_at >= PROGRESS_SECONDS:
            self._told_at = self._clock()
            lines += self._progress(task)
        return lines

    def _progress(self, task: Task) -> list[str]:
        text = progress(task)
        if text in {"", self._told} or waits(task):
            return []
        self._told = text
        return [text]


def progress(task: Task) -> str:
    """`42 %, 1.2 GiB of 2.8 GiB, 85.0 MiB/s, 0:19 left; 3 running, 2 done`; without items what
    the task says of itself."""
    now = task["progress"]
    amount = words.size if now["unit"] == "bytes" else str
    left = time_left(task)
    parts = [
        f"{words.share(now['current'], now['total'])} %",
        f"{amount(now['current'])} of {amount(now['total'])}",
        words.rate(overall_rate(task)),
        f"{words.clock(left)} left" if left is not None else "",
    ]
    counts = ", ".join(f"{number} {status}" for status, number in tally(task["items"]))
    told = counts if task["items"] else words.plain(task["message"])
    return "; ".join(filter(None, [", ".join(filter(None, parts if now["total"] else ())), told]))


def _change(item: Item, before: _State) -> list[str]:
    """The lines for an item that came from `before` to its present status and attempt."""
    status, attempts = item["status"], item["attempts"]
    subject = words.plain(f"{item['agentId']} {item['reference']}")
    failure = item["failure"]
    why = f": {failure['class']}: {words.plain(failure['message'])}" if failure else ""
    if status == "running":
        again = f" again (attempt {attempts})" if attempts > 1 else ""
        return [f"{subject}: running{again}"]
    if status == "queued":
        return [f"{subject}: waits to try again{why}"] if before[0] == "running" else []
    return [f"{subject}: {status}{why}"] if status != before[0] else []
