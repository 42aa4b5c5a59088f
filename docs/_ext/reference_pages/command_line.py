"""The command line, from its own help."""

from collections.abc import Iterator

import click

from reference_pages import docstrings
from reference_pages.markdown import code, page, table
from wharfinger.cli.exits import Exit
from wharfinger.cli.main import root


def command_line() -> str:
    """Every command with its `--help`, and the exit codes."""
    sections = [
        f"## {' '.join(path)}\n\n```text\n{_help(path, command)}\n```"
        for path, command in _walk(("wharfinger",), root)
    ]
    meanings = docstrings.of_fields(Exit)
    exits = table(
        ("exit code", "meaning"), [(code(exit_.value), meanings[exit_.name]) for exit_ in Exit]
    )
    intro = (
        "Every command takes `--json`: one JSON document on standard output, in the shapes of "
        "[JSON shapes](shapes.md), everything else on standard error."
    )
    return page("Command line", intro, "## Exit codes", exits, *sections)


def _walk(
    path: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _walk((*path, name), inner)


def _help(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(path), **command.context_settings)
    context.terminal_width = 80
    return command.get_help(context)
