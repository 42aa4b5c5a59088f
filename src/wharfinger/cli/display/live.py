"""Paints a task where a person follows it."""

import asyncio
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol, Self

from wharfinger.cli import output
from wharfinger.cli.display import layout
from wharfinger.cli.display.lines import LineLog
from wharfinger.client.errors import ServerUnreachable
from wharfinger.client.shapes import Task

_FRAME_SECONDS: Final = 0.1


class Display(Protocol):
    """Shows a task; a context manager, left in a state in which text can follow."""

    keeps_rows: bool
    """Whether its last picture, which stays, has the task's items as rows."""

    def show(self, task: Task) -> None:
        """The task as it is now."""

    def away(self, outage: ServerUnreachable) -> None:
        """The manager is away; the task may go on all the same."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


def display_for(*, as_json: bool) -> Display:
    """Bars where a terminal is, plain lines elsewhere.

    On standard output, unless that is for the JSON document: then on standard error.
    """
    stream = sys.stderr if as_json else sys.stdout
    from rich.console import Console

    console = Console(file=stream)
    if console.is_terminal and not console.is_dumb_terminal:
        return Bars(console)
    return Lines(output.note if as_json else output.line)


class Lines:
    """Plain lines."""

    keeps_rows = False

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._log = LineLog(time.monotonic)
        self._away = False

    def show(self, task: Task) -> None:
        """The lines that are new."""
        self._away = False
        for text in self._log.update(task):
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


class Bars:
    """Live bars, at most ten frames a second, within the terminal's height."""

    keeps_rows = True

    def __init__(self, console: Any) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._task: Task | None = None
        self._outage = ""
        self._next_frame: asyncio.TimerHandle | None = None

    def show(self, task: Task) -> None:
        """Soon on the screen."""
        self._task, self._outage = task, ""
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
        if self._task is None:
            return
        width, height = self._console.size
        unicode = self._console.encoding.startswith("utf")
        glyphs = layout.FANCY if unicode else layout.ASCII
        lines = layout.render(self._task, width - 1, max(height - 2, 3), glyphs)
        if self._outage:
            lines.append([(self._outage[: width - 1], "yellow")])
        text = Text("\n", no_wrap=True).join(Text.assemble(*line) for line in lines)
        self._live.update(text, refresh=True)
