"""`wharfinger task`: see, follow and cancel background tasks."""

from collections.abc import Sequence
from typing import Any

import click

from wharfinger.cli import output, words
from wharfinger.cli.display import summary
from wharfinger.cli.display.lines import progress
from wharfinger.cli.exits import Exit
from wharfinger.cli.follow import follow, show_found
from wharfinger.cli.lazy import LazyGroup
from wharfinger.cli.naming import with_task
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.shapes import Task, Transition
from wharfinger.domain.states import TaskStatus

_STATUSES = [status.value for status in TaskStatus]


@click.group(cls=LazyGroup)
def task() -> None:
    """See, follow and cancel background tasks.

    \b
    Examples:
      wharfinger task ls --status running
      wharfinger task watch 4f2a9c
    """


@task.command()
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="The newest N.",
)
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(_STATUSES),
    help="Only tasks of this status; may be repeated.",
)
@remote
def ls(limit: int, status: Sequence[str], url: str | None, as_json: bool) -> Exit:
    """List tasks, the newest first: your own, or everybody's for a superadmin.

    \b
    Examples:
      wharfinger task ls
      wharfinger task ls --status running --json
    """
    tasks = ask(url, lambda api: api.tasks(limit=limit, status=status, with_items=as_json))
    if as_json:
        output.document(tasks)
        return Exit.OK
    output.table(
        ("ID", "NAME", "STATUS", "PROGRESS", "AGE", "OWNER", "MESSAGE"),
        [
            (
                each["id"],
                each["name"],
                each["status"],
                _progress(each),
                words.since(each["createdAt"]),
                each["owner"],
                each["message"],
            )
            for each in tasks
        ],
        empty="no tasks",
    )
    return Exit.OK


@task.command()
@click.argument("task_id", metavar="ID")
@remote
def show(task_id: str, url: str | None, as_json: bool) -> Exit:
    """Show a task: its items, and what happened to it.

    ID is its id, or the beginning of it, as long as it is the only one.

    \b
    Example:
      wharfinger task show 4f2a9c
    """
    found = ask(url, lambda api: with_task(api, task_id, api.task))
    if as_json:
        output.document(found)
        return Exit.OK
    output.line(summary.sentence(found))
    if told := progress(found):
        output.line(told)
    if found["items"]:
        output.line()
        output.table(summary.COLUMNS, summary.rows(found), empty="")
    output.line()
    show_found(found)
    show_transitions(found["transitions"])
    return Exit.OK


@task.command()
@click.argument("task_id", metavar="ID")
@remote
def watch(task_id: str, url: str | None, as_json: bool) -> Exit:
    """Follow a task to its end; of one that has ended, show the end.

    Ctrl-C stops the watching, not the task. The exit code is that of the task, as for preload.

    \b
    Example:
      wharfinger task watch 4f2a9c
    """

    async def begin(api: Api) -> str:
        return (await with_task(api, task_id, api.task))["id"]

    return follow(url, begin, as_json=as_json)


@task.command()
@click.argument("task_id", metavar="ID")
@remote
def cancel(task_id: str, url: str | None, as_json: bool) -> Exit:
    """Ask for a task's end. It is cancelled once all its parts are confirmed stopped.

    \b
    Example:
      wharfinger task cancel 4f2a9c && wharfinger task watch 4f2a9c
    """
    asked = ask(url, lambda api: with_task(api, task_id, api.cancel_task))
    if as_json:
        output.document(asked)
    elif asked["endedAt"] is None:
        output.line(f"task {asked['id']} is being cancelled: wharfinger task watch {asked['id']}")
    else:
        output.line(summary.sentence(asked))
    return Exit.OK


def show_transitions(transitions: Sequence[Transition]) -> None:
    """What happened, oldest first."""
    rows: list[Sequence[Any]] = [
        (words.moment(each["at"]), each["from"] or "-", each["to"], each["by"], each["reason"])
        for each in transitions
    ]
    output.table(("AT", "FROM", "TO", "BY", "REASON"), rows, empty="no transitions")


def _progress(each: Task) -> str:
    now = each["progress"]
    amount = words.size if now["unit"] == "bytes" else str
    if not now["total"]:
        return "-"
    share = words.share(now["current"], now["total"])
    return f"{share} % of {amount(now['total'])}"
