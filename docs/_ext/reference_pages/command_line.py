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
        f"## {context.command_path}\n\n```text\n{context.get_help()}\n```"
        for context in _walk(root, "wharfinger")
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
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """The command as if it were called, and those below it: they inherit its ways."""
    context = click.Context(command, parent, name, **command.context_settings)
    context.terminal_width = 80
    yield context
    if isinstance(command, click.Group):
        for inner_name in command.list_commands(context):
            inner = command.get_command(context, inner_name)
            assert inner is not None
            yield from _walk(inner, inner_name, context)
