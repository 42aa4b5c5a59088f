"""`wharfinger registry`: the registries images may come from."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from wharfinger.cli import output
from wharfinger.cli.exits import Exit
from wharfinger.cli.lazy import LazyGroup
from wharfinger.cli.remote import ask, remote
from wharfinger.client.shapes import Grants

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(cls=LazyGroup)
def registry() -> None:
    """Make registries known: images come from these alone. And say whom their images are for.

    \b
    Examples:
      wharfinger registry add http://127.0.0.1:5000
      wharfinger registry ls
      wharfinger registry grant r.lan/secret --group research
    """


@registry.command()
@click.argument("registry_url", metavar="URL")
@click.option("--username", metavar="NAME", help="The account to pull with.")
@click.option("--password-stdin", is_flag=True, help="Read its password from standard input.")
@remote
def add(
    registry_url: str, username: str | None, password_stdin: bool, url: str | None, as_json: bool
) -> Exit:
    """Make a registry known.

    The password is never an argument, since arguments are seen by everybody on a machine. It is
    kept encrypted and never shown again.

    \b
    Examples:
      wharfinger registry add http://127.0.0.1:5000
      wharfinger registry add https://r.lan --username ci --password-stdin < password
    """
    if (username is None) == password_stdin:
        raise click.UsageError(
            "--username and --password-stdin go together: "
            "wharfinger registry add URL --username NAME --password-stdin < FILE"
        )
    password = _password() if password_stdin else None
    added = ask(
        url, lambda api: api.add_registry(registry_url, username=username, password=password)
    )
    if as_json:
        output.document(added)
    else:
        output.line(f"registry {added['host']} is known, at {added['url']}")
    return Exit.OK


@registry.command()
@remote
def ls(url: str | None, as_json: bool) -> Exit:
    """List the registries that are known.

    \b
    Example:
      wharfinger registry ls
    """
    registries = ask(url, lambda api: api.registries())
    if as_json:
        output.document(registries)
        return Exit.OK
    output.table(
        ("HOST", "URL", "USERNAME"),
        [(each["host"], each["url"], each["username"] or "-") for each in registries],
        empty="no registries: make one known with `wharfinger registry add URL`",
    )
    return Exit.OK


@registry.command()
@click.argument("host")
@remote
def rm(host: str, url: str | None, as_json: bool) -> Exit:
    """Forget a registry and its password. Images that came from it stay.

    \b
    Example:
      wharfinger registry rm 127.0.0.1:5000
    """
    removed = ask(url, lambda api: api.remove_registry(host))
    if as_json:
        output.document(removed)
    else:
        output.line(f"registry {host} is forgotten")
    return Exit.OK


def _subjects(command: Command) -> Command:
    command = remote(command)
    for option in (
        click.option(
            "--group",
            "groups",
            multiple=True,
            metavar="GROUP",
            help="A group of users; may be repeated.",
        ),
        click.option(
            "--user", "users", multiple=True, metavar="USER", help="A user; may be repeated."
        ),
        click.argument("path"),
    ):
        command = option(command)
    return command


@registry.command()
@_subjects
def grant(
    path: str, users: Sequence[str], groups: Sequence[str], url: str | None, as_json: bool
) -> Exit:
    """Let users and groups use the images below a path, which is then for them alone.

    PATH is a registry (host[:port]) or what begins there (host/name). The longest path that covers
    an image decides; where there is none it is open to all. For everybody else such an image does
    not exist, even where a host holds it. Superadmins may use everything.

    \b
    Examples:
      wharfinger registry grant r.lan --group staff
      wharfinger registry grant r.lan/secret --group research --user ada
    """
    if not users and not groups:
        raise click.UsageError("say to whom: --user USER or --group GROUP (both repeatable)")
    changed = ask(url, lambda api: api.grant_images(path, users=users, groups=groups))
    return _show_grants(changed, as_json=as_json)


@registry.command()
@_subjects
def revoke(
    path: str, users: Sequence[str], groups: Sequence[str], url: str | None, as_json: bool
) -> Exit:
    """Take the images below a path from users and groups.

    With nobody named all grants of the path are taken back, and it is open as before them. Naming
    the last ones is refused, since it would open the path to all.

    \b
    Examples:
      wharfinger registry revoke r.lan/secret --user ada
      wharfinger registry revoke r.lan/secret
    """
    changed = ask(url, lambda api: api.revoke_images(path, users=users, groups=groups))
    return _show_grants(changed, as_json=as_json)


@registry.command()
@remote
def grants(url: str | None, as_json: bool) -> Exit:
    """List the paths that are not open to all, and whom each is for.

    \b
    Example:
      wharfinger registry grants
    """
    paths = ask(url, lambda api: api.grants())
    if as_json:
        output.document(paths)
        return Exit.OK
    output.table(
        ("PATH", "USERS", "GROUPS"),
        [
            (each["path"], ", ".join(each["users"]) or "-", ", ".join(each["groups"]) or "-")
            for each in paths
        ],
        empty="every registry is open to all: limit one with `wharfinger registry grant PATH`",
    )
    return Exit.OK


def _show_grants(changed: Grants, *, as_json: bool) -> Exit:
    if as_json:
        output.document(changed)
    else:
        output.line(f"{changed['path']} is {_for_whom(changed)}")
    return Exit.OK


def _for_whom(path: Grants) -> str:
    """`for user ada, group research alone`, `no longer limited`."""
    names = [f"user {name}" for name in path["users"]]
    names += [f"group {name}" for name in path["groups"]]
    return f"for {', '.join(names)} alone" if names else "no longer limited"


def _password() -> str:
    """What stands on standard input, without the line's end."""
    try:
        text = sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"the password cannot be read: {error}") from error
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise click.UsageError("no password came on standard input")
    return password
