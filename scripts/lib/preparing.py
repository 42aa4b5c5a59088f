"""Setting up as a script's first step."""

import sys
import time
from collections.abc import Sequence

from lib import debian, environment
from lib.debian import Package
from lib.environment import Extent


def prepare(extent: Extent, packages: Sequence[Package]) -> None:
    """Install what is missing, saying so; end the process when it cannot be."""
    begun = time.monotonic()
    try:
        installed = debian.install_missing(packages)
        made = environment.make(extent)
    except (debian.CannotInstall, environment.CannotInstall) as error:
        sys.exit(f"setup failed: {error}")
    what = [*installed, *([".venv"] if made else [])]
    if what:
        print(f"installed {', '.join(what)} in {time.monotonic() - begun:.0f} s", flush=True)
