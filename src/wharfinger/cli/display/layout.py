"""The live display as text: a pure function of the task and the terminal's size."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from wharfinger.cli import words
from wharfinger.client.shapes import Item, Task
from wharfinger.domain.states import TASK_TRANSITIONS

Span = tuple[str, str]
"""A piece of text and its style."""
Line = list[Span]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters bars are drawn with."""

    full: str
    empty: str
    cut: str
    dot: str


FANCY: Final = Glyphs("━", "─", "…", " · ")
ASCII: Final = Glyphs("#", "-", "..", ", ")

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

_LONGEST_NAME: Final = 32
_WIDEST_BAR: Final = 40
_SHORTEST_BAR: Final = 10
_GAP: Final = "  "


def short_name(reference: str) -> str:
    """The last part of a reference, with tag or a few digits of the digest."""
    name, _, digest = reference.partition("@")
    last = name.rpartition("/")[2]
    return f"{last}@{digest.rpartition(':')[2][:12]}" if digest and ":" not in last else last


def tally(items: Sequence[Item]) -> list[tuple[str, int]]:
    """How many items are in which status, in the display's order."""
    counts = Counter(item["status"] for item in items)
    return [(status, counts[status]) for status in ORDER if counts[status]]


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
    columns = _Columns.fitting(names, notes, width, glyphs)
    lines = [_heading(task, glyphs), columns.overall(task)]
    lines += [columns.item(name, item) for name, item in zip(names, shown, strict=True)]
    if rest:
        counts = ", ".join(f"{number} {status}" for status, number in tally(rest))
        lines.append([(f"and {len(rest)} more: {counts}", "dim")])
    return [_cut(each, width, glyphs) for each in lines[:height]]


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
    return spans


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns the width has room for; `name` and `bar` are widths."""

    name: int
    bar: int
    with_bytes: bool
    with_rate: bool
    glyphs: Glyphs

    @classmethod
    def fitting(
        cls, names: Sequence[str], notes: Sequence[str], width: int, glyphs: Glyphs
    ) -> "_Columns":
        """Bytes are left out first, then the rate; the bar takes what is left."""
        longest = max([len("all"), *(len(name) for name in names)])
        name = min(longest, _LONGEST_NAME, max(width // 3, 8))
        note = max([len("downloading"), *(len(note) for note in notes)])
        fixed = name + len("  100 %  0:00:00 left  ") + note
        rate, amount = len("  1000 MiB/s"), len("  1000 MiB of 1000 MiB")
        spare = width - fixed - _SHORTEST_BAR
        with_rate = spare >= rate
        with_bytes = spare >= rate + amount
        bar = width - fixed - with_rate * rate - with_bytes * amount - 2
        return cls(name, max(min(bar, _WIDEST_BAR), 4), with_bytes, with_rate, glyphs)

    def overall(self, task: Task) -> Line:
        """All of the task in one bar."""
        progress = task["progress"]
        amount = words.size if progress["unit"] == "bytes" else str
        return [
            (self._padded("all"), "bold"),
            *self._bar(progress["current"], progress["total"], "bold"),
            *self._numbers(
                progress["current"],
                progress["total"],
                overall_rate(task),
                time_left(task),
                amount,
            ),
        ]

    def item(self, name: str, item: Item) -> Line:
        """One host and image."""
        status = item["status"]
        style = STYLES.get(status, "")
        line: Line = [(self._padded(name), "")]
        if status != "running" or item["bytesTotal"] <= 0:
            return [*line, (_GAP + (_told(item) or status), style)]
        return [
            *line,
            *self._bar(item["bytesDone"], item["bytesTotal"], style),
            *self._numbers(
                item["bytesDone"],
                item["bytesTotal"],
                item["bytesPerSecond"],
                item["etaSeconds"],
                words.size,
            ),
            (_GAP + _told(item), style),
        ]

    def _padded(self, name: str) -> str:
        cut = self.glyphs.cut
        if len(name) > self.name:
            name = name[: self.name - len(cut)] + cut
        return name.ljust(self.name)

    def _bar(self, done: int, total: int, style: str) -> Line:
        full = self.bar * min(done, total) // total if total > 0 else 0
        return [
            (_GAP + self.glyphs.full * full, style),
            (self.glyphs.empty * (self.bar - full), "dim"),
        ]

    def _numbers(
        self,
        done: int,
        total: int,
        rate: float | None,
        eta: float | None,
        amount: Callable[[int], str],
    ) -> Line:
        text = f"{_GAP}{words.share(done, total):3} %"
        if self.with_bytes:
            text += _GAP + f"{amount(done)} of {amount(total)}".rjust(20)
        if self.with_rate:
            text += _GAP + words.rate(rate).rjust(10)
        left = f"{words.clock(eta)} left" if eta is not None else ""
        return [(text + _GAP + left.rjust(12), "")]


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


def _cut(line: Line, width: int, glyphs: Glyphs) -> Line:
    if sum(len(text) for text, _ in line) <= width:
        return line
    room, kept = max(width - len(glyphs.cut), 0), []
    for text, style in line:
        kept.append((text[:room], style))
        room -= len(kept[-1][0])
    return [*kept, (glyphs.cut[:width], "dim")]
