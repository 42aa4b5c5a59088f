"""A bounded memory of how things ended, for calls that are repeated."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

KEPT_SECONDS: Final = 600.0
KEPT_MOST: Final = 10_000

T = TypeVar("T")


class Recent(Generic[T]):
    """Answers by id, each kept for `KEPT_SECONDS`, and at most `KEPT_MOST` of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def keep(self, key: str, answer: T) -> None:
        """Remember the answer; what is too old or too much is forgotten."""
        now = self._clock()
        self._kept[key] = (now, answer)
        self._kept.move_to_end(key)
        while (
            len(self._kept) > KEPT_MOST or now - next(iter(self._kept.values()))[0] > KEPT_SECONDS
        ):
            self._kept.popitem(last=False)

    def get(self, key: str) -> T | None:
        """The answer, if it is still known."""
        since, answer = self._kept.get(key, (0.0, None))
        return answer if self._clock() - since <= KEPT_SECONDS else None
