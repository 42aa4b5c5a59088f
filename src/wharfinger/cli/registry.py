"""`wharfinger registry`: the registries images may come from."""

import sys

import click

from wharfinger.cli import output
from wharfinger.cli.exits import Exit
from wharfinger.cli.lazy import LazyGroup
from wharfinger.cli.remote import ask, remote


@click.group(cls=LazyGroup)
def registry() -> None:
    """Make registries known: images come from these alone.

    \b
    Examples:
      wharfinger registry add http://127.0.0.1:5000
      wharfinger registry ls
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
