"""The JSON of the command line, from the types its client declares."""

from typing import Any, get_type_hints, is_typeddict

from reference_pages import docstrings
from reference_pages.markdown import code, page, table
from wharfinger.client import shapes as declared


def shapes() -> str:
    """A section per type, in the order of the source."""
    kinds = {name: kind for name, kind in vars(declared).items() if is_typeddict(kind)}
    beside = docstrings.of_fields(declared)
    return page(
        "JSON shapes",
        "What commands print with `--json`, and what GraphQL answers under the same keys. `ls` "
        "prints arrays.",
        'A command that fails before anything exists prints `{"error": Failure}`.',
        *(
            _section(kind, beside.get(name) or docstrings.first_line(kind))
            for name, kind in kinds.items()
        ),
    )


def _section(kind: Any, about: str) -> str:
    keys = [(code(key), code(_name(hint))) for key, hint in get_type_hints(kind).items()]
    return "\n\n".join((f"## {kind.__name__}", about, table(("key", "type"), keys)))


def _name(hint: Any) -> str:
    text = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    for prefix in (f"{declared.__name__}.", "typing."):
        text = text.replace(prefix, "")
    return text
