"""Paints a task or a session where a person follows it."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from wharfinger.cli import output
from wharfinger.cli.display.columns import ASCII, FANCY, Glyphs, Line
from wharfinger.client.errors import ServerUnreachable

_FRAME_SECONDS: Final = 0.1

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Drawing(Generic[T]):
    """How a thing is shown: the lines that are new, or a picture of a width and a height."""

    news: Callable[[T], list[str]]
    picture: Callable[[T, int, int, Glyphs], list[Line]]


class Display(Protocol[T_contra]):
    """Shows a thing; a context manager, left in a state in which text can follow."""

    keeps_rows: bool
    """Whether its last picture, which stays, has the thing's parts as rows."""

    def show(self, thing: T_contra) -> None:
        """The thing as it is now."""

    def away(self, outage: ServerUnreachable) -> None:
        """The manager is away; what is followed may go on all the same."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


def display_for(drawing: Drawing[T], *, as_json: bool) -> Display[T]:
    """Bars where a terminal is, plain lines elsewhere.

    On standard output, unless that is for the JSON document: then on standard error.
    """
    stream = sys.stderr if as_json else sys.stdout
    from rich.console import Console

    console = Console(file=stream)
    if console.is_terminal and not console.is_dumb_terminal:
        return Bars(console, drawing.picture)
    return Lines(output.note if as_json else output.line, drawing.news)


class Lines(Generic[T]):
    """Plain lines."""

    keeps_rows = False

    def __init__(self, write: Callable[[str], None], news: Callable[[T], list[str]]) -> None:
        self._write = write
        self._news = news
        self._away = False

    def show(self, thing: T) -> None:
        """The lines that are new."""
        self._away = False
        for text in self._news(thing):
            self._write(text)

    def away(self, outage: ServerUnreachable) -> None:
        """One line per outage."""
        if not self._away:
            self._away = True
            self._write(f"{outage.message}; trying again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Bars(Generic[T]):
    """Live bars, at most ten frames a second, within the terminal's height."""

    keeps_rows = True

    def __init__(self, console: Any, picture: Callable[[T, int, int, Glyphs], list[Line]]) -> None:
        from rich.live import Live

        self._console = console
        self._picture = picture
        self._live = Live(
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._thing: T | None = None
        self._outage = ""
        self._next_frame: asyncio.TimerHandle | None = None

    def show(self, thing: T) -> None:
        """Soon on the screen."""
        self._thing, self._outage = thing, ""
        self._soon()

    def away(self, outage: ServerUnreachable) -> None:
        """A line below the bars until the manager is back."""
        self._outage = f"{outage.message}; trying again"
        self._soon()

    def __enter__(self) -> Self:
        self._live.start()
        self._console.show_cursor(True)  # who is killed cannot give it back
        return self

    def __exit__(self, *_: object) -> None:
        if self._next_frame:
            self._next_frame.cancel()
        self._paint()
        self._live.stop()

    def _soon(self) -> None:
        if self._next_frame is None:
            loop = asyncio.get_running_loop()
            self._next_frame = loop.call_later(_FRAME_SECONDS, self._paint)

    def _paint(self) -> None:
        from rich.text import Text

        self._next_frame = None
        if self._thing is None:
            return
        width, height = self._console.size
        unicode = self._console.encoding.startswith("utf")
        glyphs = FANCY if unicode else ASCII
        lines = self._picture(self._thing, width - 1, max(height - 2, 3), glyphs)
        if self._outage:
            lines.append([(self._outage[: width - 1], "yellow")])
        text = Text("\n", no_wrap=True).join(Text.assemble(*line) for line in lines)
        self._live.update(text, refresh=True)
