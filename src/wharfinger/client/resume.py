"""One stream of events, through cut connections and restarted managers."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from typing import Final

from wharfinger.client.errors import ConnectionLost, ServerUnreachable
from wharfinger.client.http import Client
from wharfinger.client.sse import Event

PATIENCE_SECONDS: Final = 120.0
"""How long a manager may be away before a watcher gives up."""
_LONGEST_WAIT: Final = 5.0
_STEADY_SECONDS: Final = 10.0
"""A stream that stayed open that long was contact, even if there was nothing to tell."""

OnOutage = Callable[[ServerUnreachable], None]


async def resumed(
    client: Client,
    path: str,
    parameters: dict[str, str],
    *,
    last: Collection[str],
    on_outage: OnOutage | None = None,
) -> AsyncGenerator[Event]:
    """The events at `path` until one whose name is in `last`. Close it (`contextlib.aclosing`).

    A stream that breaks is taken up after the last event seen, or from a snapshot where the
    manager cannot; `on_outage` hears of it. Raises `ServerUnreachable` when the manager was never
    reached or stays away longer than `PATIENCE_SECONDS`, and `RemoteError` for a refusal.
    """
    clock = asyncio.get_running_loop().time
    last_id = ""
    reached = False
    away_since: float | None = None
    waits = _waits()
    while True:
        opened_at: float | None = None
        try:
            async with client.events(path, parameters, last_event_id=last_id) as events:
                reached, opened_at = True, clock()
                async for event in events:
                    last_id, away_since, waits = event.id, None, _waits()
                    yield event
                    if event.name in last:
                        return
            outage: ServerUnreachable = ConnectionLost("the stream ended before what it tells of")
        except ServerUnreachable as error:
            outage = error
        now = clock()
        was_steady = opened_at is not None and now - opened_at > _STEADY_SECONDS
        if away_since is None or was_steady:
            away_since = now
        if not reached or now - away_since > PATIENCE_SECONDS:
            raise outage
        if on_outage:
            on_outage(outage)
        await asyncio.sleep(next(waits))


def _waits() -> Iterator[float]:
    wait = 0.1
    while True:
        yield wait
        wait = min(wait * 2, _LONGEST_WAIT)
