"""`wharfinger user`: who may use the manager, and how much of it."""

from collections.abc import Sequence
from typing import cast

import click

from wharfinger.cli import output, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.lazy import LazyGroup
from wharfinger.cli.limits import limit, scaling_groups, used
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.shapes import User, Viewer
from wharfinger.domain.errors import UnknownId


@click.group(cls=LazyGroup)
def user() -> None:
    """Add, list, limit, group and remove users.

    \b
    Examples:
      wharfinger user add ada
      wharfinger user group ada --add research
      wharfinger user ls
    """


@user.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["user", "superadmin"]),
    default="user",
    show_default=True,
    help="What they may do.",
)
@remote
def add(name: str, role: str, url: str | None, as_json: bool) -> Exit:
    """Add a user. Give them a token next.

    \b
    Example:
      wharfinger user add ada && wharfinger token create ada --label laptop
    """
    added = ask(url, lambda api: api.add_user(name, role=role))
    if as_json:
        output.document(added)
    else:
        output.line(f"{added['role']} {added['name']} is added")
        output.note(f"a token for them: wharfinger token create {added['name']} --label LABEL")
    return Exit.OK


@user.command()
@remote
def ls(url: str | None, as_json: bool) -> Exit:
    """List users: what they occupy, of what they may have at a time, and their groups.

    \b
    Example:
      wharfinger user ls
    """
    users = ask(url, lambda api: api.users())
    if as_json:
        output.document(users)
        return Exit.OK
    output.table(
        ("NAME", "ROLE", "USED", "SCALING GROUPS", "GROUPS", "AGE", "ID"),
        [
            (
                each["name"],
                each["role"],
                used(each),
                scaling_groups(each),
                _groups(each),
                words.since(each["createdAt"]),
                each["id"],
            )
            for each in users
        ],
        empty="no users",
    )
    return Exit.OK


@user.command()
@click.argument("name", required=False)
@remote
def show(name: str | None, url: str | None, as_json: bool) -> Exit:
    """Show a user, or yourself without a NAME: the limits, and what is occupied of them.

    \b
    Examples:
      wharfinger user show
      wharfinger user show ada
    """

    async def find(api: Api) -> Viewer:
        if name is None:
            return await api.viewer()
        for each in await api.users():
            if each["name"] == name:
                return each
        raise UnknownId(f"there is no user {name}")

    found = ask(url, find)
    if as_json:
        output.document(found)
        return Exit.OK
    rows = [
        ("name", found["name"]),
        ("role", found["role"]),
        ("used", used(found)),
        ("scaling groups", scaling_groups(found)),
        ("id", found["id"]),
    ]
    if name is not None:
        rows.insert(-1, ("groups", _groups(cast("User", found))))
    for key, value in rows:
        output.line(f"{key + ':':16}{words.plain(value)}")
    return Exit.OK


user.add_command(limit)


@user.command()
@click.argument("name")
@click.option("--add", multiple=True, metavar="GROUP", help="Put them into it; may be repeated.")
@click.option("--remove", multiple=True, metavar="GROUP", help="Take them out; may be repeated.")
@remote
def group(
    name: str, add: Sequence[str], remove: Sequence[str], url: str | None, as_json: bool
) -> Exit:
    """Change which groups a user belongs to. A group is there once somebody is in it.

    `wharfinger registry grant` limits images to groups.

    \b
    Examples:
      wharfinger user group ada --add research --add staff
      wharfinger user group ada --remove staff
    """
    if not add and not remove:
        raise click.UsageError("say which: --add GROUP or --remove GROUP (both repeatable)")
    changed = ask(url, lambda api: api.change_user_groups(name, add=add, remove=remove))
    if as_json:
        output.document(changed)
    else:
        output.line(f"{changed['name']} now: groups {_groups(changed)}")
    return Exit.OK


def _groups(each: User) -> str:
    return ", ".join(each["groups"]) or "-"


@user.command()
@click.argument("name")
@remote
def rm(name: str, url: str | None, as_json: bool) -> Exit:
    """Remove a user and all their tokens.

    \b
    Example:
      wharfinger user rm ada
    """
    removed = ask(url, lambda api: api.remove_user(name))
    if as_json:
        output.document(removed)
    else:
        output.line(f"user {name} is removed")
    return Exit.OK
