"""Files that one process at a time may use."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wharfinger.domain.errors import Conflict


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock file for this process; raises `Conflict` when another one holds it."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                f"another wharfinger uses {lock.parent}: stop it, or choose another --data-dir"
            ) from error
        yield
