"""The live display as text: a pure function of the task and the terminal's size."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from wharfinger.cli import words
from wharfinger.cli.display.columns import FANCY, Columns, Glyphs, Line, cut
from wharfinger.client.shapes import Item, Task
from wharfinger.domain.states import TASK_TRANSITIONS

ORDER: Final = ("running", "failed", "queued", "cancelled", "done", "skipped")
"""Whose lines come first, when not all fit."""

STYLES: Final = {
    "running": "cyan",
    "failed": "red",
    "cancelled": "yellow",
    "done": "green",
    "skipped": "green",
    "queued": "dim",
}


def short_name(reference: str) -> str:
    """The last part of a reference, with tag or a few digits of the digest."""
    name, _, digest = reference.partition("@")
    last = name.rpartition("/")[2]
    return f"{last}@{digest.rpartition(':')[2][:12]}" if digest and ":" not in last else last


def tally(items: Sequence[Item]) -> list[tuple[str, int]]:
    """How many items are in which status, in the display's order."""
    counts = Counter(item["status"] for item in items)
    return [(status, counts[status]) for status in ORDER if counts[status]]


def waits(task: Task) -> bool:
    """Whether it waits for other tasks to end, as its message says; events have nothing else."""
    return task["message"].startswith("waits for ")


def overall_rate(task: Task) -> float | None:
    """Bytes per second of all that runs, or None while nothing is known."""
    rates = [
        item["bytesPerSecond"]
        for item in task["items"]
        if item["status"] == "running" and item["bytesPerSecond"] is not None
    ]
    return sum(rates) if rates else None


def time_left(task: Task) -> float | None:
    """Seconds until all of it is done, at the present rate."""
    progress, rate = task["progress"], overall_rate(task)
    if progress["unit"] != "bytes" or not rate:
        return None
    return max(progress["total"] - progress["current"], 0) / rate


def render(task: Task, width: int, height: int, glyphs: Glyphs = FANCY) -> list[Line]:
    """At most `height` lines of at most `width` characters: what the task is, all of it in one
    bar, then a line per host and image, those that run or failed first, and a count of the rest.
    """
    rows = sorted(task["items"], key=lambda item: _rank(item["status"]))
    room = max(height - 2, 0)
    if len(rows) > room:
        shown, rest = rows[: max(room - 1, 0)], rows[max(room - 1, 0) :]
    else:
        shown, rest = rows, []
    several = len({item["reference"] for item in task["items"]}) > 1
    names = [_name(item, several) for item in shown]
    notes = [_told(item) for item in shown if item["status"] == "running"]
    columns = Columns.fitting(["all", *names], notes, width, glyphs)
    lines = [_heading(task, glyphs), _overall(columns, task)]
    lines += [_row(columns, name, item) for name, item in zip(names, shown, strict=True)]
    if rest:
        counts = ", ".join(f"{number} {status}" for status, number in tally(rest))
        lines.append([(f"and {len(rest)} more: {counts}", "dim")])
    return [cut(each, width, glyphs) for each in lines[:height]]


def _rank(status: str) -> int:
    return ORDER.index(status) if status in ORDER else len(ORDER)


def _name(item: Item, several: bool) -> str:
    agent = words.plain(item["agentId"])
    return f"{agent} {words.plain(short_name(item['reference']))}" if several else agent


def _heading(task: Task, glyphs: Glyphs) -> Line:
    spans: Line = [(words.plain(task["name"]), "bold"), (f" {task['id']}", "")]
    for status, number in tally(task["items"]):
        spans += [(glyphs.dot, "dim"), (f"{number} {status}", STYLES[status])]
    if task["cancelRequested"] and task["status"] not in TASK_TRANSITIONS.terminal:
        spans += [(glyphs.dot, "dim"), ("cancelling", "yellow")]
    if task["message"] and (waits(task) or not task["items"]):
        spans += [(glyphs.dot, "dim"), (words.plain(task["message"]), "")]
    return spans


def _overall(columns: Columns, task: Task) -> Line:
    """All of the task in one bar."""
    progress = task["progress"]
    return columns.meter(
        ("all", "bold"),
        progress["current"],
        progress["total"],
        overall_rate(task),
        time_left(task),
        style="bold",
        amount=words.size if progress["unit"] == "bytes" else str,
    )


def _row(columns: Columns, name: str, item: Item) -> Line:
    """One host and image."""
    status = item["status"]
    style = STYLES.get(status, "")
    if status != "running" or item["bytesTotal"] <= 0:
        return columns.text(name, _told(item) or status, style)
    return columns.meter(
        (name, ""),
        item["bytesDone"],
        item["bytesTotal"],
        item["bytesPerSecond"],
        item["etaSeconds"],
        style=style,
        note=_told(item),
    )


def _told(item: Item) -> str:
    """What there is to say about an item beside its numbers."""
    parts = []
    failure = item["failure"]
    match item["status"]:
        case "failed" if failure:
            return f"failed: {failure['class']}: {words.plain(failure['message'])}"
        case "done":
            size = item["bytesTotal"]
            return f"done  {words.size(size)}" if size else "done"
        case "running":
            parts.append(item["phase"] or "running")
        case "queued" if item["attempts"]:
            parts.append("waits to try again")
        case other:
            parts.append(other)
    if item["attempts"] > 1:
        parts.append(f"attempt {item['attempts']}")
    if failure and item["status"] in {"queued", "running"}:
        parts.append(f"after {failure['class']}")
    return ", ".join(parts)
