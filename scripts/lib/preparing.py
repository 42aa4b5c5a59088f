"""Setting up as a script's first step."""

import sys
import time
from collections.abc import Sequence

from lib import debian, environment
from lib.debian import Package
from lib.environment import Extent


def prepare(extent: Extent, packages: Sequence[Package]) -> None:
    """Install what is missing, saying so; end the process when it cannot be.

    Says nothing where nothing is missing.
    """
    begun = time.monotonic()
    try:
        with environment.one_at_a_time(say):
            installed = debian.install_missing(packages, say)
            made = environment.make(extent, say)
    except (debian.CannotInstall, environment.CannotInstall) as error:
        sys.exit(f"setup failed: {error}")
    what = [*installed, *([".venv"] if made else [])]
    if what:
        say(f"installed {', '.join(what)} in {time.monotonic() - begun:.0f} s")


def say(text: str) -> None:
    """A line, seen at once."""
    print(text, flush=True)
