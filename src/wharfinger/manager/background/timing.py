"""How long things of the task framework may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds."""

    lease: float = 15.0
    """A task whose run was not renewed for this long is abandoned."""
    renew: float = 5.0
    take_over: float = 5.0
    """How often abandoned tasks are looked for."""
    publish: float = 0.25
    """How long between two reports of a task on the bus, at least."""
    save: float = 2.0
    """How long between two reports of a task in its row, at least."""
    reread: float = 3.0
    """How long a watcher trusts a silent bus."""
    retry: float = 1.0
    """How long to wait before writing an end, or listening to the bus, once more."""
    keep: float = 7 * 86400.0
    """How long ended tasks are kept."""
    remove: float = 600.0
    """How often those kept long enough are removed."""
    stop: float = 1.0
    """How long each step of a planned stop may take."""
