"""The program: its commands, and what becomes of every way they can end."""

import errno
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from wharfinger import __version__
from wharfinger.cli import exits, output, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.lazy import Entry, LazyGroup
from wharfinger.domain.errors import InvalidRequest, WharfingerError

_HERE: Final = "wharfinger.cli"
_ENTRIES: Final = {
    "up": Entry(f"{_HERE}.server:up", "Start a manager and an agent per engine, in one process."),
    "manager": Entry(f"{_HERE}.server:manager", "Run a manager."),
    "agent": Entry(f"{_HERE}.agent:agent", "Run this host's agent, or manage the agents."),
    "image": Entry(f"{_HERE}.image:image", "Bring images to hosts, take them away, list them."),
    "session": Entry(f"{_HERE}.session:session", "Start sessions, see, follow and end them."),
    "task": Entry(f"{_HERE}.task:task", "See, follow and cancel background tasks."),
    "registry": Entry(f"{_HERE}.registry:registry", "The registries images may come from."),
    "user": Entry(f"{_HERE}.user:user", "Who may use the manager."),
    "token": Entry(f"{_HERE}.token:token", "What people and programs show to the manager."),
    "audit": Entry(f"{_HERE}.audit:audit", "Who did what to images, sessions, users and hosts."),
}
_WRITE_ERRORS: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO})


@click.group(
    cls=LazyGroup,
    entries=_ENTRIES,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every command has a --help of its own, with examples.",
)
@click.option("--url", metavar="URL", help="The manager's URL, for all commands that ask one.")
@click.version_option(__version__, prog_name="wharfinger")
def root(url: str | None) -> None:
    """Keep the right container images on the right hosts.

    \b
    First steps:
      wharfinger up
      wharfinger registry add http://127.0.0.1:5000
      wharfinger image preload 127.0.0.1:5000/app:v1 --all-agents
      wharfinger session create 127.0.0.1:5000/app:v1 --wait
    """


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Says on standard error whatever went wrong."""
    output.open_missing_streams()
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in options
    try:
        code = _guarded(arguments, as_json=as_json)
        with output.writing():
            pass
    except output.ReaderGone:
        output.abandon(sys.stdout)
        return Exit.READER_GONE
    except output.CannotWrite as error:
        output.abandon(sys.stdout)
        output.note(f"error: standard output cannot be written: {error}")
        return Exit.FAILED
    else:
        return code
    finally:
        output.settle_notes()


def _guarded(arguments: Sequence[str], *, as_json: bool) -> int:
    try:
        with root.make_context("wharfinger", list(arguments)) as context:
            return int(root.invoke(context) or Exit.OK)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt):
        output.note("interrupted")
        return Exit.INTERRUPTED
    except click.ClickException as error:
        _explain(error)
        if as_json:
            output.document({"error": InvalidRequest(error.format_message()).to_json()})
        return error.exit_code
    except WharfingerError as error:
        output.note(f"error: {words.remark(words.plain(error.message))}")
        if as_json:
            output.document({"error": error.to_json()})
        return exits.of_error(error)
    except OSError as error:  # click prints help by itself
        if error.filename is None and error.errno in _WRITE_ERRORS:
            raise output.translated(error) from error
        raise


def _explain(error: click.ClickException) -> None:
    """Say what is not written right, as all errors are said."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        output.note(error.format_message())  # a group alone: its help
        return
    if context:
        output.note(context.get_usage())
    output.note(f"error: {words.remark(error.format_message())}")
    if context and isinstance(error, click.MissingParameter):
        examples = [line.strip() for line in (context.command.help or "").splitlines()]
        for example in [line for line in examples if line.startswith(context.command_path)][:1]:
            output.note(f"for example: {example}")
    if context:
        output.note(f"all options, with examples: {context.command_path} --help")
