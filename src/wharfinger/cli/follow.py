"""Follows a task to its end, and says how to go on where it cannot."""

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

from wharfinger.cli import exits, output
from wharfinger.cli.display import layout, rescan_summary, summary
from wharfinger.cli.display.lines import LineLog
from wharfinger.cli.display.live import Drawing, display_for
from wharfinger.cli.exits import Exit
from wharfinger.cli.remote import ask
from wharfinger.client.api import Api
from wharfinger.client.errors import ServerUnreachable
from wharfinger.client.shapes import Task
from wharfinger.domain.errors import Forbidden, UnknownId, WharfingerError

Begin = Callable[[Api], Awaitable[str]]
"""Starts the task, or names one that was started: its id."""

_NOT_OURS: Final = frozenset({Forbidden.code, UnknownId.code})


def follow(url: str | None, begin: Begin, *, as_json: bool) -> Exit:
    """Show the task until it ends, then its end. Ctrl-C leaves it running."""
    follower = _Follower(begin, as_json=as_json)
    try:
        task = ask(url, follower.run)
    except KeyboardInterrupt:
        output.note(f"interrupted; {follower.how_to_go_on()}")
        if as_json and follower.task:
            output.document(follower.task)
        return Exit.INTERRUPTED
    except (output.ReaderGone, output.CannotWrite):
        if follower.task_id:
            output.note(follower.how_to_go_on())
        raise
    except WharfingerError as error:
        if follower.task_id and error.code not in _NOT_OURS:
            output.note(follower.how_to_go_on())
        raise
    show_end(task, as_json=as_json, rows_shown=follower.rows_shown)
    return exits.of_status(task["status"])


def start(url: str | None, begin: Begin, *, as_json: bool) -> Exit:
    """Start the task without following it, and tell its id."""

    async def started(api: Api) -> Task:
        task_id = await begin(api)
        try:
            return await api.task(task_id)
        except WharfingerError as error:
            error.detail |= {"taskId": task_id}
            output.note(_started(task_id))
            raise

    if as_json:
        output.document(ask(url, started))
        return Exit.OK
    task_id = ask(url, begin)
    output.line(task_id)
    output.note(_started(task_id))
    return Exit.OK


def _started(task_id: str) -> str:
    return f"started; to follow it: wharfinger task watch {task_id}"


def show_end(task: Task, *, as_json: bool, rows_shown: bool) -> None:
    """The task's end: the document, or a table, unless it would tell nothing new, and a sentence."""
    if as_json:
        output.document(task)
        return
    if task["items"] and (not rows_shown or summary.adds_to_bars(task)):
        output.line()
        output.table(summary.COLUMNS, summary.rows(task), empty="")
        output.line()
    show_found(task)
    output.line(summary.sentence(task))


def show_found(task: Task) -> None:
    """What a rescan found, as a table, and what it could not read; of other tasks nothing."""
    if found := rescan_summary.registries(task):
        output.table(rescan_summary.COLUMNS, rescan_summary.rows(found), empty="")
        output.line()
        for line in rescan_summary.failures(found):
            output.line(line)


class _Follower:
    """Holds what is known of the task, so that it can be told wherever the following ends."""

    def __init__(self, begin: Begin, *, as_json: bool) -> None:
        self._begin = begin
        self._as_json = as_json
        self.task_id = ""
        self.task: Task | None = None
        self.rows_shown = False

    def how_to_go_on(self) -> str:
        """What to type next."""
        if not self.task_id:
            return "whether the task was started is told by: wharfinger task ls"
        return f"the task goes on; to follow it: wharfinger task watch {self.task_id}"

    async def run(self, api: Api) -> Task:
        """The task as it has ended."""
        self.task_id = await self._begin(api)
        self.task = await api.task(self.task_id)
        drawing = Drawing(LineLog(time.monotonic).update, layout.render)
        with display_for(drawing, as_json=self._as_json) as display:
            self.rows_shown = display.keeps_rows
            display.show(self.task)
            async with aclosing(api.watch_task(self.task_id, on_outage=display.away)) as events:
                async for event in events:
                    self.task = event.apply(self.task)
                    display.show(self.task)
        try:
            return await api.task(self.task_id)
        except ServerUnreachable:
            return self.task  # how it ended is known; the manager may stop right after
