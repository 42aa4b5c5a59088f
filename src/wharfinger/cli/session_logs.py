"""`wharfinger session logs`."""

from collections.abc import Callable
from typing import Any, Final, TypedDict

import click

from wharfinger.cli import output
from wharfinger.cli.exits import Exit
from wharfinger.cli.naming import with_session
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.errors import ServerUnreachable
from wharfinger.domain.errors import UnknownId

_DIGITS_OF_A_NUMBER: Final = 4
"""So short is a kernel's number, and no id."""


class Log(TypedDict):
    """`truncated`: the beginning is not kept."""

    text: str
    truncated: bool


@click.command()
@click.argument("session_id", metavar="ID")
@click.option("--kernel", metavar="ID|N", help="Of this kernel, by id or number.  [default: 1]")
@click.option("--follow", "-f", is_flag=True, help="Go on until its container ends.")
@click.option(
    "--tail",
    "tail_bytes",
    type=click.IntRange(min=0),
    metavar="BYTES",
    help="Of what is there already, the last so many bytes.",
)
@remote
def logs(
    session_id: str,
    kernel: str | None,
    follow: bool,
    tail_bytes: int | None,
    url: str | None,
    as_json: bool,
) -> Exit:
    """Print what a session wrote, byte for byte.

    Of one that has ended the last 1 MiB is kept.

    \b
    Examples:
      wharfinger session logs 4f2a9c
      wharfinger session logs 4f2a9c --kernel 2 --follow
      wharfinger session logs 4f2a9c --tail 10000 --json
    """
    if as_json and follow:
        raise click.UsageError("not both of --follow and --json: a document has an end")
    chunks: list[bytes] = []
    take = chunks.append if as_json else output.raw

    async def read(api: Api) -> bool:
        async def read_of(found: str) -> bool:
            kernel_id = await _kernel_id(api, found, kernel)
            asked: dict[str, Any] = {"follow": follow, "tail_bytes": tail_bytes}
            return await _read(api, found, take, kernel_id=kernel_id, **asked)

        return await with_session(api, session_id, read_of)

    try:
        truncated = ask(url, read)
    except ServerUnreachable:
        if follow:
            output.note(
                f"the log broke off; to go on: wharfinger session logs {session_id} --follow"
            )
        raise
    if as_json:
        text = b"".join(chunks).decode(errors="replace")
        output.document(Log(text=text, truncated=truncated))
    return Exit.OK


async def _read(api: Api, session_id: str, take: Callable[[bytes], Any], **asked: Any) -> bool:
    async with api.session_log(session_id, **asked) as log:
        if log.truncated:
            output.note("the beginning of the log is not kept")
        async for chunk in log.chunks:
            take(chunk)
    return log.truncated


async def _kernel_id(api: Api, session_id: str, kernel: str | None) -> str | None:
    """The id of a kernel that may be given by its number. Raises `UnknownId`."""
    if kernel is None or not (kernel.isdecimal() and len(kernel) <= _DIGITS_OF_A_NUMBER):
        return kernel
    kernels = (await api.session(session_id))["kernels"]
    number = int(kernel)
    if not 0 < number <= len(kernels):
        raise UnknownId(f"session {session_id} has kernels 1 to {len(kernels)}, not {number}")
    return kernels[number - 1]["id"]
