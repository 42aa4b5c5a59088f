"""Fields of JSON that may lack them, or hold something else there."""

from typing import Any


def mapping(value: Any) -> dict[str, Any]:
    """The object itself, or an empty one."""
    return value if isinstance(value, dict) else {}


def text(entry: dict[str, Any], key: str) -> str:
    """The string under this key, or an empty one."""
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def number(entry: dict[str, Any], key: str) -> int:
    """The integer under this key, or 0."""
    value = entry.get(key)
    return value if isinstance(value, int) else 0


def identified(listing: Any) -> list[dict[str, Any]] | None:
    """The entries of a listing; None unless it is a list of objects that each have an `Id`.

    Every dialect sends `[]` for none, so anything else is no reason to think that there are none.
    """
    if not isinstance(listing, list) or not all(text(mapping(each), "Id") for each in listing):
        return None
    return listing
