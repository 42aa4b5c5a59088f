"""The bus port. Losing, repeating or reordering what goes over it costs delay, never correctness."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from wharfinger.domain.errors import WharfingerError


class SubscriberOverflow(WharfingerError):
    """A subscriber was too slow, and was closed."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `id` is the publisher's (empty for a mere ring); `data` is JSON-ready.

    Of waiting messages with one non-empty `coalesce` key a slow subscriber gets only the newest.
    """

    id: str
    kind: str
    data: Mapping[str, Any]
    coalesce: str = ""


class Subscription(Protocol):
    """An open subscription: what was published since it stands, in the publisher's order."""

    @property
    def resumed(self) -> bool:
        """Whether everything after the id asked for is still coming (retained, then new)."""

    def __aiter__(self) -> AsyncIterator[Message]:
        """Messages without end. Raises `SubscriberOverflow` when its bounded queue overflowed."""


class Bus(Protocol):
    """Publish and subscribe over named channels."""

    async def publish(self, channel: str, message: Message) -> None:
        """Hand it to every present subscriber; retain the last ones of the channel for a while."""

    def subscribe(
        self, channel: str, *, after: str | None = None
    ) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe; when entered, the subscription stands.

        With `after`, retained messages that follow the one with that id come first and `resumed`
        is true; when that id is not retained, nothing old comes and `resumed` is false.
        """

    async def retained(self, channel: str) -> Sequence[Message]:
        """What is retained of the channel now, in the publisher's order."""

    async def close(self) -> None:
        """End every subscription."""
