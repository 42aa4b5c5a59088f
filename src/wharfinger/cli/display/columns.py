"""Rows of a live display: names, bars and numbers, in the columns the width has room for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from wharfinger.cli import words

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

_LONGEST_NAME: Final = 32
_WIDEST_BAR: Final = 40
_SHORTEST_BAR: Final = 10
_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns the width has room for; `name` and `bar` are widths."""

    name: int
    bar: int
    with_bytes: bool
    with_rate: bool
    glyphs: Glyphs

    @classmethod
    def fitting(
        cls, names: Sequence[str], notes: Sequence[str], width: int, glyphs: Glyphs
    ) -> "Columns":
        """Bytes are left out first, then the rate; the bar takes what is left."""
        longest = max(len(name) for name in names)
        name = min(longest, _LONGEST_NAME, max(width // 3, 8))
        note = max([len("downloading"), *(len(note) for note in notes)])
        fixed = name + len("  100 %  0:00:00 left  ") + note
        rate, amount = len("  1000 MiB/s"), len("  1000 MiB of 1000 MiB")
        spare = width - fixed - _SHORTEST_BAR
        with_rate = spare >= rate
        with_bytes = spare >= rate + amount
        bar = width - fixed - with_rate * rate - with_bytes * amount - 2
        return cls(name, max(min(bar, _WIDEST_BAR), 4), with_bytes, with_rate, glyphs)

    def text(self, name: str, text: str, style: str) -> Line:
        """A name, and what there is to say."""
        return [(self.padded(name), ""), (_GAP + text, style)]

    def meter(
        self,
        name: Span,
        done: int,
        total: int,
        rate: float | None,
        eta: float | None,
        *,
        style: str,
        note: str = "",
        amount: Callable[[int], str] = words.size,
    ) -> Line:
        """A name, a bar, and how much, how fast and how long in numbers."""
        filled = self.bar * min(done, total) // total if total > 0 else 0
        numbers = f"{_GAP}{words.share(done, total):3} %"
        if self.with_bytes:
            numbers += _GAP + f"{amount(done)} of {amount(total)}".rjust(20)
        if self.with_rate:
            numbers += _GAP + words.rate(rate).rjust(10)
        left = f"{words.clock(eta)} left" if eta is not None else ""
        line = [
            (self.padded(name[0]), name[1]),
            (_GAP + self.glyphs.full * filled, style),
            (self.glyphs.empty * (self.bar - filled), "dim"),
            (numbers + _GAP + left.rjust(12), ""),
        ]
        return [*line, (_GAP + note, style)] if note else line

    def padded(self, name: str) -> str:
        """The name, in its column's width."""
        cut = self.glyphs.cut
        if len(name) > self.name:
            name = name[: self.name - len(cut)] + cut
        return name.ljust(self.name)


def cut(line: Line, width: int, glyphs: Glyphs) -> Line:
    """The line, no wider than that."""
    if sum(len(text) for text, _ in line) <= width:
        return line
    room, kept = max(width - len(glyphs.cut), 0), []
    for text, style in line:
        kept.append((text[:room], style))
        room -= len(kept[-1][0])
    return [*kept, (glyphs.cut[:width], "dim")]
