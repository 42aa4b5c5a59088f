"""`wharfinger audit`: who did what, to what, and when."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from wharfinger.cli import output, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.lazy import LazyGroup
from wharfinger.cli.remote import ask, remote

_NAMED: Final = 3
"""Of a list so many are named."""


@click.group(cls=LazyGroup)
def audit() -> None:
    """See who did what. Entries are only ever added.

    \b
    Example:
      wharfinger audit ls --action image --limit 20
    """


@audit.command()
@click.option("--actor", metavar="USER", help="Only what this user did.")
@click.option("--action", metavar="WORD", help="Only this: image.preload, or all of image.")
@click.option("--target", metavar="TEXT", help="Only to what contains this: a reference, an id.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="The newest N.",
)
@remote
def ls(
    actor: str | None,
    action: str | None,
    target: str | None,
    limit: int,
    url: str | None,
    as_json: bool,
) -> Exit:
    """List what people did to images, sessions, registries, users and hosts, the newest first.

    \b
    Examples:
      wharfinger audit ls
      wharfinger audit ls --actor ada --action session.cancel
      wharfinger audit ls --target r.lan/torch --limit 500 --json
    """
    entries = ask(
        url, lambda api: api.audit(actor=actor, action=action, target=target, limit=limit)
    )
    if as_json:
        output.document(entries)
        return Exit.OK
    output.table(
        ("WHEN", "WHO", "WHAT", "TO WHAT", "DETAIL"),
        [
            (
                words.moment(each["at"]),
                each["actor"],
                each["action"],
                each["target"],
                details(each["detail"]),
            )
            for each in entries
        ],
        empty="nothing was done",
    )
    return Exit.OK


def details(detail: Mapping[str, Any]) -> str:
    """`role user`, `agents gpu-a, gpu-b; forced`: what is empty is left out."""
    return "; ".join(_detail(key, value) for key, value in detail.items() if _says(value))


def _says(value: object) -> bool:
    return value is not None and value is not False and value not in ("", [], {})


def _detail(key: str, value: object) -> str:
    if value is True:
        return key
    if isinstance(value, Mapping):
        return f"{key} ({details(value)})"
    if isinstance(value, list):
        return f"{key} {_some(value)}"
    return f"{key} {value}"


def _some(values: Sequence[object]) -> str:
    named = ", ".join(map(str, values[:_NAMED]))
    more = len(values) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
