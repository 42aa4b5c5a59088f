"""`wharfinger image`: bring images to hosts, take them away, see what is where."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import click

from wharfinger.cli import catalogue, output, plan, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.follow import follow, start
from wharfinger.cli.lazy import LazyGroup
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.shapes import Image, ImageOnAgent
from wharfinger.domain.selectors import EVERY

_NAMED: Final = 4
"""Agents of an image are named up to this many, else counted."""

_STATUSES: Final = ("known", "missing", "forgotten", "unregistered")

Start = Callable[[Api, tuple[str, ...], list[str]], Any]
Plan = Callable[..., Exit]
"""Prints what would be done: of `wharfinger.cli.plan`."""


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
            "--dry-run", is_flag=True, help="Say what would come of it on every host; do nothing."
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

    Every tag is resolved once; all agents get that version, and so do new sessions. What is there
    already is skipped. No session starts from an image where it is being brought; one that has no
    other host waits, and says so. Ctrl-C leaves the task running.

    \b
    Examples:
      wharfinger image preload 127.0.0.1:5000/app:v1 --all-agents
      wharfinger image preload r.lan/a:v1 r.lan/b:v2 --agents sgroup:gpu,cpu-7
      wharfinger image preload r.lan/a:v1 --agents sgroup:gpu --dry-run
      wharfinger image preload r.lan/a:v1 --agents sgroup:gpu --detach --json

    \b
    Exit codes: 0 all done, 1 failed or cancelled, 2 wrong usage, 3 partially
    succeeded, 4 not allowed, 5 manager not reachable, 130 interrupted.
    """
    return _begin(Api.preload, plan.preload, **options)


@image.command()
@_targets
def unload(**options: Any) -> Exit:
    """Take images away from agents, where nothing uses them.

    An agent with a container or a kernel of the image keeps it, fails as in-use and names them;
    the others go on. What is protected stays. Nothing is ever forced.

    \b
    Examples:
      wharfinger image unload 127.0.0.1:5000/app:v1 --all-agents
      wharfinger image unload r.lan/a:v1 --agents sgroup:gpu --agents cpu-7
      wharfinger image unload r.lan/a:v1 --all-agents --dry-run

    \b
    Exit codes: 0 all done, 1 failed or cancelled, 2 wrong usage, 3 partially
    succeeded, 4 not allowed, 5 manager not reachable, 130 interrupted.
    """
    return _begin(Api.unload, plan.unload, **options)


def _begin(
    operation: Start,
    show_plan: Plan,
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
        return show_plan(url, references, chosen, as_json=as_json)

    async def begin(api: Api) -> str:
        task_id: str = await operation(api, references, chosen)
        return task_id

    return start(url, begin, as_json=as_json) if detach else follow(url, begin, as_json=as_json)


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
@click.argument("text", required=False)
@click.option("--registry", metavar="HOST", help="Only of this registry.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(_STATUSES),
    help="Only images of this status; may be repeated.",
)
@click.option("--missing", is_flag=True, help="--status missing: its registry no longer has it.")
@click.option("--agent", "agent_id", metavar="ID", help="Only what this agent holds.")
@remote
def ls(
    text: str | None,
    registry: str | None,
    statuses: tuple[str, ...],
    missing: bool,
    agent_id: str | None,
    url: str | None,
    as_json: bool,
) -> Exit:
    """List images: those users may ask for, and those hosts hold, with where each one is.

    SIZE is the download of one, ON AGENTS the disk it takes on all of them together. TEXT narrows
    to references that contain it. A session may ask for what is known or missing;
    `register` makes others known.

    \b
    Examples:
      wharfinger image ls torch
      wharfinger image ls --registry r.lan --missing
      wharfinger image ls --status unregistered --agent gpu-a
      wharfinger image ls --json | jq -r '.[].reference'
    """
    wanted = [*statuses, "missing"] if missing else statuses
    images = ask(
        url,
        lambda api: api.images(
            reference=text, registry=registry, statuses=wanted, agent_id=agent_id
        ),
    )
    if as_json:
        output.document(images)
        return Exit.OK
    output.table(
        ("REFERENCE", "DIGEST", "SIZE", "NOTE", "ON AGENTS", "AGENTS"),
        [
            (
                each["reference"],
                output.digest(each["rootDigest"]),
                words.size(each["size"]),
                _marks(each),
                words.size(each["bytesOnAgents"]) if each["agents"] else "-",
                _places(each["agents"]),
            )
            for each in images
        ],
        empty="no image matches"
        if text or registry or wanted or agent_id
        else "no images: bring one with `wharfinger image preload REF --all-agents`",
    )
    return Exit.OK


for command in (
    catalogue.register,
    catalogue.forget,
    catalogue.protect,
    catalogue.unprotect,
    catalogue.rescan,
):
    image.add_command(command)


def _marks(each: Image) -> str:
    """`missing, protected`; `-` for what is simply known."""
    status = "" if each["status"] == "known" else each["status"]
    return ", ".join(filter(None, (status, "protected" if each["protected"] else ""))) or "-"


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
