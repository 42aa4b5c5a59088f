"""Waits between tries that grow, with a cap, and differ from agent to agent."""

import asyncio
import random
from typing import Final

FIRST_SECONDS: Final = 0.2
MOST_SECONDS: Final = 5.0
"""Well below the time after which a silent agent counts as lost."""


class Backoff:
    """Doubles from wait to wait; a success resets it."""

    def __init__(self) -> None:
        self._tries = 0

    def reset(self) -> None:
        """The last try went well."""
        self._tries = 0

    async def wait(self) -> None:
        """Wait half to all of the present step."""
        step = min(MOST_SECONDS, FIRST_SECONDS * 2.0**self._tries)
        self._tries = min(self._tries + 1, 10)
        await asyncio.sleep(step * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
