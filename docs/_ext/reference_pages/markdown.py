"""Pieces of Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are one line each."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def code(text: object) -> str:
    """As code, or nothing."""
    return f"`{text}`" if text not in {None, ""} else ""


def page(title: str, *parts: str) -> str:
    """A page: a title and its parts, a blank line between them."""
    return "\n\n".join([f"# {title}", *(part.strip("\n") for part in parts)]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
