"""One function per page; each reads the code that decides."""

from collections.abc import Callable, Mapping
from typing import Final

from reference_pages.command_line import command_line
from reference_pages.errors import failures
from reference_pages.http import metrics, permissions
from reference_pages.shapes import shapes
from reference_pages.states import states
from reference_pages.variables import settings

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "cli": command_line,
    "settings": settings,
    "states": states,
    "failures": failures,
    "permissions": permissions,
    "shapes": shapes,
    "metrics": metrics,
}
"""By file name, without its end."""
