"""Groups whose commands are imported when they are run: a command line that starts fast."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command stands, as `module:attribute`, and its line in the list of commands."""

    target: str
    summary: str

    def load(self) -> click.Command:
        """Import it."""
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


class LazyGroup(click.Group):
    """A group that knows some of its commands by name alone.

    Listing them imports nothing; they are listed in the order of `entries`.
    """

    def __init__(
        self, *args: Any, entries: Mapping[str, Entry] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._entries = dict(entries or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return [*self._entries, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        entry = self._entries.get(cmd_name)
        return entry.load() if entry else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; an unknown name is answered with those that are known."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand:
            known = ", ".join(self.list_commands(ctx))
            ctx.fail(f"no such command: {args[0]!r}; there are: {known}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        rows = [(name, entry.summary) for name, entry in self._entries.items()]
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=100)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
