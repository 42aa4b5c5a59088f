"""What goes to standard output, and notes on standard error.

Standard output is one JSON document, or text for a person: through here alone, since a reader may
go away and a disk may be full at any line.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from typing import IO, Any, Final

from wharfinger.cli import words

_UNBOUNDED: Final = 100_000


class ReaderGone(Exception):
    """Whoever read standard output closed it."""


class CannotWrite(Exception):
    """Standard output takes no more: its text says why."""


@contextmanager
def writing() -> Iterator[None]:
    """Translates what goes wrong with standard output."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        raise translated(error) from error


def translated(error: OSError) -> ReaderGone | CannotWrite:
    """What an error of standard output means."""
    if isinstance(error, BrokenPipeError):
        return ReaderGone()
    return CannotWrite(error.strerror or str(error))


def line(text: str = "") -> None:
    """One line of text for a person."""
    with writing():
        sys.stdout.write(text + "\n")


def document(value: Any) -> None:
    """The one JSON document."""
    with writing():
        sys.stdout.write(json.dumps(value, indent=2) + "\n")


def raw(chunk: bytes) -> None:
    """Bytes as they are."""
    with writing():
        sys.stdout.buffer.write(chunk)


def note(text: str) -> None:
    """A sentence on standard error; nobody may be there to read it."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Rows under headings; `empty` is said when there are none.

    A terminal gets cells folded to its width, anything else a line per row and no ornament: ids
    are never cut.
    """
    if not rows:
        note(empty)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    ornament = box.SIMPLE_HEAD if sys.stdout.isatty() else None
    grid = Table(box=ornament, show_edge=False, pad_edge=False, header_style="bold")
    grid.padding = (0, 1) if ornament else (0, 2, 0, 0)
    for column in columns:
        grid.add_column(Text(column), overflow="fold")
    for row in rows:
        grid.add_row(*(Text(words.plain(cell), style=_style(cell)) for cell in row))
    line(_rendered(grid))


def digest(text: str | None) -> str:
    """A digest for a table: whole, but on a terminal as short as people compare it."""
    if text is None:
        return "-"
    algorithm, _, digits = text.partition(":")
    return f"{algorithm}:{digits[:12]}" if sys.stdout.isatty() else text


def _rendered(renderable: Any) -> str:
    from rich.console import Console

    on_terminal = sys.stdout.isatty()
    buffer = StringIO()
    console = Console(
        file=buffer,
        force_terminal=on_terminal and os.environ.get("TERM") != "dumb",
        width=None if on_terminal else _UNBOUNDED,
        legacy_windows=False,
    )
    console.print(renderable)
    lines = buffer.getvalue().splitlines()
    return "\n".join(text.rstrip() for text in lines)


_STYLES: Final = {
    "succeeded": "green",
    "done": "green",
    "UP": "green",
    "partially_succeeded": "yellow",
    "failed": "red",
    "LOST": "red",
    "RUNNING": "green",
    "PULLING": "cyan",
    "CANCELLED": "yellow",
    "ERROR": "red",
    "cancelled": "yellow",
    "running": "cyan",
}


def _style(cell: object) -> str:
    return _STYLES.get(cell, "") if isinstance(cell, str) else ""


def open_missing_streams() -> None:
    """Put something in the place of standard streams that were closed before the start.

    Else the next file or socket opened would take their numbers. What is written to a missing
    standard output fails as it should; a missing standard error swallows it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            _fill(number, name, mode)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")


def _fill(number: int, name: str, mode: str) -> None:
    flags = os.O_WRONLY if name == "stderr" else os.O_RDONLY
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    stream: IO[str] = os.fdopen(number, mode, closefd=False)
    setattr(sys, name, stream)


def abandon(stream: IO[str]) -> None:
    """Let the interpreter's last flush of a broken stream go nowhere, silently."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def settle_notes() -> None:
    """Flush standard error, so that what is wrong with it changes no exit code."""
    try:
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)
