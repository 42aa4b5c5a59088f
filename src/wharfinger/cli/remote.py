"""What every command that speaks to a manager has in common."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from wharfinger.cli import output
from wharfinger.client.api import Api
from wharfinger.client.connection import TOKEN_VARIABLE, Connection, find_connection
from wharfinger.client.errors import RemoteError
from wharfinger.domain.errors import Forbidden, InvalidRequest

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

URL_HELP = "The manager's URL, instead of WHARFINGER_URL or the file that `up` wrote."


def remote(command: Command) -> Command:
    """Adds the options every such command has: `url` and `as_json`; refuses what is no text."""

    @wraps(command)
    def checked(*context: Any, **given: Any) -> Any:
        for value in given.values():
            for text in value if isinstance(value, tuple) else (value,):
                _require_text(text)
        return command(*context, **given)

    with_url = click.option("--url", metavar="URL", help=URL_HELP)(cast("Command", checked))
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document, for programs."
    )(with_url)


def _require_text(value: Any) -> None:
    """Bytes that are none come as halves of surrogate pairs, which nothing carries further."""
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidRequest(f"{value!r} is no text in UTF-8")


def ask(url: str | None, question: Callable[[Api], Awaitable[T]]) -> T:
    """What the manager answers. Raises what `Api` and `find_connection` raise."""
    connection = find_connection(url or click.get_current_context().find_root().params.get("url"))
    if connection.warning:
        output.note(f"warning: {connection.warning}")
    try:
        return asyncio.run(_asked(connection, question))
    except RemoteError as error:
        if error.code == Forbidden.code and not connection.token:
            output.note(f"no token was sent: set {TOKEN_VARIABLE}, or run `wharfinger up` here")
        raise


async def _asked(connection: Connection, question: Callable[[Api], Awaitable[T]]) -> T:
    async with Api(connection) as api:
        return await question(api)
