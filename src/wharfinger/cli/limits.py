"""`wharfinger user limit`: what a user may have."""

from collections.abc import Callable
from typing import Final, TypeVar

import click

from wharfinger.cli import output, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.remote import ask, remote
from wharfinger.client.shapes import LimitChanges, Viewer
from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.slots import parse_cpu, parse_mem

T = TypeVar("T")

NONE = "none"
ALL = "all"

_LARGEST: Final = 2**31 - 1
"""As GraphQL carries a whole number."""
_DIGITS: Final = 20


@click.command()
@click.argument("name")
@click.option("--sessions", metavar="N|none", help="Sessions at a time.")
@click.option("--cpu", metavar="N|none", help="Processors: 16, 0.5.")
@click.option("--mem", metavar="SIZE|none", help="Memory: 64g.")
@click.option("--gpu", metavar="N|none", help="Graphics processors.")
@click.option("--sgroup", metavar="A,B|all", help="The scaling groups that are open to them.")
@remote
def limit(
    name: str,
    sessions: str | None,
    cpu: str | None,
    mem: str | None,
    gpu: str | None,
    sgroup: str | None,
    url: str | None,
    as_json: bool,
) -> Exit:
    """Change what a user may have at a time; what is not named stays as it is.

    What is over a limit waits, and says so. `none` takes a limit away.

    \b
    Examples:
      wharfinger user limit ada --sessions 10 --cpu 16 --mem 64g --gpu 2
      wharfinger user limit ada --gpu none --sgroup gpu,render
    """
    changes = LimitChanges()
    if sessions is not None:
        changes["maxSessions"] = _limit(sessions, _whole)
    if cpu is not None:
        changes["cpu"] = _limit(cpu, lambda text: parse_cpu(text) / 1000)
    if mem is not None:
        changes["mem"] = _limit(mem, parse_mem)
    if gpu is not None:
        changes["gpu"] = _limit(gpu, _whole)
    if sgroup is not None:
        changes["scalingGroups"] = _groups(sgroup)
    if not changes:
        raise click.UsageError("say which: --sessions, --cpu, --mem, --gpu or --sgroup")
    changed = ask(url, lambda api: api.set_user_limits(name, changes))
    if as_json:
        output.document(changed)
    else:
        output.line(
            f"{changed['name']} now: {used(changed)}; scaling groups: {scaling_groups(changed)}"
        )
    return Exit.OK


def used(user: Viewer) -> str:
    """`sessions 2/10, cpu 4/16, mem 8.0 GiB/no limit, gpu 0/2`."""
    return words.used(user["occupied"], user["limits"], unlimited="no limit")


def scaling_groups(user: Viewer) -> str:
    """The scaling groups that are open to a user."""
    chosen = user["scalingGroups"]
    return "all" if chosen is None else ", ".join(chosen) or "none"


def _limit(text: str, parse: Callable[[str], T]) -> T | None:
    return None if text == NONE else parse(text)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise InvalidRequest(f"{text!r} is no whole number: write 10, or none for no limit")
    if len(text) > _DIGITS or int(text) > _LARGEST:
        raise InvalidRequest(f"{text[:_DIGITS]} is more than a limit can be; none takes it away")
    return int(text)


def _groups(text: str) -> list[str] | None:
    chosen = [part.strip() for part in text.split(",")]
    return None if text == ALL else list(dict.fromkeys(filter(None, chosen)))
