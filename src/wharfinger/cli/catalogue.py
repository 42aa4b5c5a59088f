"""`wharfinger image register`, `forget`, `protect`, `unprotect` and `rescan`.

Of several references of which only some are done, the exit code is 3.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click

from wharfinger.cli import output
from wharfinger.cli.each import ask_each, tell
from wharfinger.cli.exits import Exit
from wharfinger.cli.follow import follow, start
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.errors import RemoteError
from wharfinger.client.shapes import CatalogueImage, Protection
from wharfinger.domain.errors import RescanBlocked

Answer = TypeVar("Answer", CatalogueImage, Protection)
Command = TypeVar("Command", bound=Callable[..., Any])


def _references(command: Command) -> Command:
    return click.argument("references", metavar="REF...", nargs=-1, required=True)(remote(command))


@click.command()
@_references
def register(references: Sequence[str], url: str | None, as_json: bool) -> Exit:
    """Make images known, so that users may ask for them.

    Each registry is asked what the reference means now; that is what new sessions run, until it
    is registered again, preloaded or rescanned. With --json: one image for one REF, an array for
    several.

    \b
    Examples:
      wharfinger image register r.lan/torch:24.1
      wharfinger image register r.lan/a:v1 r.lan/b:v2 --json
    """
    return _each(url, references, Api.register_image, _registered, as_json=as_json)


@click.command()
@_references
def forget(references: Sequence[str], url: str | None, as_json: bool) -> Exit:
    """Let users no longer ask for images. What hosts hold stays there.

    A rescan does not bring them back; `register` does. With --json: one image for one REF, an
    array for several.

    \b
    Example:
      wharfinger image forget r.lan/torch:23.4
    """
    return _each(
        url,
        references,
        Api.forget_image,
        lambda image: f"{image['reference']} is forgotten",
        as_json=as_json,
    )


@click.command()
@_references
def protect(references: Sequence[str], url: str | None, as_json: bool) -> Exit:
    """Keep images from being unloaded, on every host, until `unprotect`.

    With --json: one object for one REF, an array for several.

    \b
    Example:
      wharfinger image protect r.lan/base:v1
    """
    return _each(
        url,
        references,
        Api.protect_image,
        lambda image: f"{image['reference']} is protected",
        as_json=as_json,
    )


@click.command()
@_references
def unprotect(references: Sequence[str], url: str | None, as_json: bool) -> Exit:
    """Let images be unloaded again.

    With --json: one object for one REF, an array for several.

    \b
    Example:
      wharfinger image unprotect r.lan/base:v1
    """
    return _each(
        url,
        references,
        Api.unprotect_image,
        lambda image: f"{image['reference']} may be unloaded",
        as_json=as_json,
    )


@click.command()
@click.argument("registry", required=False)
@click.option("--wait", is_flag=True, help="Behind downloads under way, which else refuse it.")
@click.option("--detach", is_flag=True, help="Do not wait: print the task and return.")
@remote
def rescan(registry: str | None, wait: bool, detach: bool, url: str | None, as_json: bool) -> Exit:
    """Read what registries have into the catalogue: new and moved tags, and what is missing.

    Of one REGISTRY, or of all that are known. What was forgotten stays so. It is refused while
    images are downloaded, and a preload asked for meanwhile waits for it. Ctrl-C leaves the task
    running.

    \b
    Examples:
      wharfinger image rescan
      wharfinger image rescan r.lan --wait --detach
      wharfinger image ls --missing

    \b
    Exit codes: 0 all done, 1 failed, refused or cancelled, 2 wrong usage, 3 partially
    succeeded, 4 not allowed, 5 manager not reachable, 130 interrupted.
    """

    async def begin(api: Api) -> str:
        try:
            return await api.rescan_images(registry, wait=wait)
        except RemoteError as error:
            if error.code == RescanBlocked.code:
                _tell_what_blocks(error)
            raise

    return start(url, begin, as_json=as_json) if detach else follow(url, begin, as_json=as_json)


def _tell_what_blocks(error: RemoteError) -> None:
    outstanding = ", ".join(map(str, error.detail.get("taskIds", ())))
    if outstanding:
        output.note(f"outstanding downloads: {outstanding}")
    output.note("to queue it behind them: wharfinger image rescan --wait")


def _registered(image: CatalogueImage) -> str:
    return f"{image['reference']} is known, as {output.digest(image['rootDigest'])}"


def _each(
    url: str | None,
    references: Sequence[str],
    change: Callable[[Api, str], Awaitable[Answer]],
    outcome: Callable[[Answer], str],
    *,
    as_json: bool,
) -> Exit:
    """Ask for every reference, whatever becomes of one."""
    outcomes = ask(url, lambda api: ask_each(references, lambda each: change(api, each)))
    return tell(outcomes, outcome, as_json=as_json)
