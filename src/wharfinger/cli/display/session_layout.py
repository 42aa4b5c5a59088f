"""The live display of a session: a pure function of it and of the terminal's size."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from wharfinger.cli import words
from wharfinger.cli.display.columns import FANCY, Columns, Glyphs, Line, cut
from wharfinger.cli.display.layout import short_name
from wharfinger.cli.display.session_lines import held_back, state_of
from wharfinger.cli.reasons import preparation
from wharfinger.client.shapes import Kernel, Session
from wharfinger.domain.states import KernelStatus

STYLES: Final = {
    KernelStatus.PENDING.value: "dim",
    KernelStatus.RUNNING.value: "green",
    KernelStatus.TERMINATED.value: "green",
    KernelStatus.CANCELLED.value: "yellow",
    KernelStatus.ERROR.value: "red",
}
"""Of the states that stand out; the others are `cyan`."""


def render(session: Session, width: int, height: int, glyphs: Glyphs = FANCY) -> list[Line]:
    """At most `height` lines of at most `width` characters: what the session is, a line per kernel,
    those that pull or failed first when not all fit, and a count of the rest."""
    room = max(height - 1, 0)
    shown, rest = session["kernels"], list[Kernel]()
    if len(shown) > room:
        ranked = sorted(shown, key=_rank)
        shown, rest = ranked[: max(room - 1, 0)], ranked[max(room - 1, 0) :]
    names = [words.plain(short_name(kernel["reference"])) for kernel in shown]
    notes = [bar.note for kernel in shown if (bar := _bar(kernel))]
    columns = Columns.fitting(["", *names], notes, width, glyphs)
    lines = [_heading(session, glyphs)]
    lines += [_row(columns, name, kernel) for name, kernel in zip(names, shown, strict=True)]
    if rest:
        counts = Counter(kernel["status"] for kernel in rest)
        told = ", ".join(f"{number} {status}" for status, number in counts.items())
        lines.append([(f"and {len(rest)} more: {told}", "dim")])
    return [cut(each, width, glyphs) for each in lines[:height]]


def _heading(session: Session, glyphs: Glyphs) -> Line:
    status = session["status"]
    return [
        (f"session {words.plain(session['name'] or session['id'])}", "bold"),
        (f" {session['id']}" if session["name"] else "", ""),
        (glyphs.dot, "dim"),
        (words.plain(status), STYLES.get(status, "cyan")),
    ]


def _row(columns: Columns, name: str, kernel: Kernel) -> Line:
    style = STYLES.get(kernel["status"], "cyan")
    bar = _bar(kernel)
    if bar is None:
        return columns.text(name, state_of(kernel), style)
    return columns.meter(
        (name, ""), bar.done, bar.total, bar.rate, bar.eta, style=style, note=bar.note
    )


@dataclass(frozen=True, slots=True)
class _Bar:
    """How far a kernel's image is, in bytes; `note` says where and how it comes."""

    done: int
    total: int
    rate: float | None
    eta: float | None
    note: str


def _bar(kernel: Kernel) -> _Bar | None:
    """Of its own pull, or of the preparation that holds it back; None where nothing is counted."""
    pull = kernel["pull"]
    rate = pull["bytesPerSecond"] if pull else None
    if held_back(kernel):
        data = kernel["statusData"] or {}
        progress = data.get("progress") or {}
        if not progress.get("total"):
            return None
        current, total = progress["current"], progress["total"]
        return _Bar(current, total, rate, data.get("etaSeconds"), f"waits for {preparation(data)}")
    if pull is None or not pull["bytesTotal"]:
        return None
    note = words.plain(f"{pull['phase']} on {kernel['agentId']}")
    return _Bar(pull["bytesDone"], pull["bytesTotal"], rate, pull["etaSeconds"], note)


def _rank(kernel: Kernel) -> int:
    return 0 if _bar(kernel) else 1 if kernel["failure"] else 2
