"""`wharfinger image`: bring images to hosts, take them away, see what is where."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import click

from wharfinger.cli import output, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.follow import follow
from wharfinger.cli.lazy import LazyGroup
from wharfinger.cli.plan import plan, show_plan
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.shapes import ImageOnAgent
from wharfinger.domain.selectors import EVERY

_NAMED: Final = 4
"""Agents of an image are named up to this many, else counted."""

Start = Callable[[Api, tuple[str, ...], list[str]], Any]


@click.group(cls=LazyGroup)
def image() -> None:
    """Bring images to hosts, take them away, and see what is where.

    \b
    Examples:
      wharfinger image preload 127.0.0.1:5000/app:v1 --all-agents
      wharfinger image ls
      wharfinger image unload 127.0.0.1:5000/app:v1 --agents sgroup:gpu
    """


def _targets(command: Callable[..., Any]) -> Callable[..., Any]:
    command = remote(command)
    for option in (
        click.option(
            "--dry-run", is_flag=True, help="Say what would be asked of whom; do nothing."
        ),
        click.option("--detach", is_flag=True, help="Do not wait: print the task and return."),
        click.option("--all-agents", is_flag=True, help='All agents: the selector "*".'),
        click.option(
            "--agents",
            "selectors",
            metavar="SEL",
            multiple=True,
            help="An agent's id or sgroup:SCALING_GROUP; may be repeated, and takes commas.",
        ),
        click.argument("references", metavar="REF...", nargs=-1, required=True),
    ):
        command = option(command)
    return command


@image.command()
@_targets
def preload(**options: Any) -> Exit:
    """Bring images to agents, and wait until each was seen to hold them.

    Every tag is resolved once; all agents get that version. What is there already is skipped.
    Ctrl-C leaves the task running.

    \b
    Examples:
      wharfinger image preload 127.0.0.1:5000/app:v1 --all-agents
      wharfinger image preload r.lan/a:v1 r.lan/b:v2 --agents sgroup:gpu,cpu-7
      wharfinger image preload r.lan/a:v1 --agents sgroup:gpu --detach --json

    \b
    Exit codes: 0 all done, 1 failed or cancelled, 2 wrong usage, 3 partially
    succeeded, 4 not allowed, 5 manager not reachable, 130 interrupted.
    """
    return _begin(Api.preload, "preload", **options)


@image.command()
@_targets
def unload(**options: Any) -> Exit:
    """Take images away from agents, where nothing uses them.

    An agent with a container of the image keeps it, fails as in-use and names the containers;
    the others go on. Nothing is ever forced.

    \b
    Examples:
      wharfinger image unload 127.0.0.1:5000/app:v1 --all-agents
      wharfinger image unload r.lan/a:v1 --agents sgroup:gpu --agents cpu-7

    \b
    Exit codes: 0 all done, 1 failed or cancelled, 2 wrong usage, 3 partially
    succeeded, 4 not allowed, 5 manager not reachable, 130 interrupted.
    """
    return _begin(Api.unload, "unload", **options)


def _begin(
    start: Start,
    operation: str,
    *,
    references: tuple[str, ...],
    selectors: tuple[str, ...],
    all_agents: bool,
    detach: bool,
    dry_run: bool,
    url: str | None,
    as_json: bool,
) -> Exit:
    chosen = chosen_selectors(selectors, all_agents=all_agents)
    if dry_run:
        show_plan(ask(url, partial(plan, operation, references, chosen)), as_json=as_json)
        return Exit.OK

    async def begin(api: Api) -> str:
        task_id: str = await start(api, references, chosen)
        return task_id

    if not detach:
        return follow(url, begin, as_json=as_json)

    async def started(api: Api) -> Any:
        return await api.task(await begin(api))

    task = ask(url, started)
    if as_json:
        output.document(task)
    else:
        output.line(task["id"])
        output.note(f"started; to follow it: wharfinger task watch {task['id']}")
    return Exit.OK


def chosen_selectors(selectors: Iterable[str], *, all_agents: bool) -> list[str]:
    """The selectors meant, each once; a usage error unless exactly one way was taken."""
    named = [part.strip() for text in selectors for part in text.split(",")]
    chosen = list(dict.fromkeys(filter(None, named)))
    if all_agents == bool(chosen):
        wrong = "not both of --agents and --all-agents" if all_agents else "say which agents"
        raise click.UsageError(
            f"{wrong}: --agents sgroup:GROUP or --agents ID (repeatable, with commas), "
            "or --all-agents for every one; `wharfinger agent ls` lists them"
        )
    return [EVERY] if all_agents else chosen


@image.command()
@click.option("--reference", metavar="TEXT", help="Only references that contain this.")
@click.option("--agent", "agent_id", metavar="ID", help="Only what this agent holds.")
@remote
def ls(reference: str | None, agent_id: str | None, url: str | None, as_json: bool) -> Exit:
    """List images, and on which agents each one is.

    \b
    Examples:
      wharfinger image ls
      wharfinger image ls --reference app --agent gpu-a
      wharfinger image ls --json | jq -r '.[].reference'
    """
    images = ask(url, lambda api: api.images(reference=reference, agent_id=agent_id))
    if as_json:
        output.document(images)
        return Exit.OK
    output.table(
        ("REFERENCE", "DIGEST", "SIZE", "AGENTS"),
        [
            (
                each["reference"],
                output.digest(each["rootDigest"]),
                words.size(each["size"]),
                _places(each["agents"]),
            )
            for each in images
        ],
        empty="no images: bring one with `wharfinger image preload REF --all-agents`",
    )
    return Exit.OK


def _places(places: Sequence[ImageOnAgent]) -> str:
    """`gpu-a, gpu-b (pulling)`; of many, how many: `498 agents, 2 of them pulling`."""
    if len(places) <= _NAMED:
        names = (
            place["agentId"] + ("" if place["status"] == "present" else f" ({place['status']})")
            for place in places
        )
        return ", ".join(names) or "-"
    busy = Counter(place["status"] for place in places if place["status"] != "present")
    parts = [words.count(len(places), "agent")]
    parts += [f"{number} of them {status}" for status, number in sorted(busy.items())]
    return ", ".join(parts)
