"""How messages lie in the server: a stream per channel, bounded, and gone when nobody publishes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wharfinger.manager.bus.port import Message

CHANNELS: Final = "wharfinger:bus"
"""The sorted set of the streams, by the moment they were published on last."""

Position = tuple[int, int]
"""The place of an entry in its stream, as the server counts: milliseconds, sequence."""

START: Final[Position] = (0, 0)

Entry = tuple[str, Mapping[str, str]]

PUBLISH: Final = """
redis.call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[2], '*', 'message', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] * 1000000 + time[2], KEYS[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
local over = redis.call('ZCARD', KEYS[2]) - ARGV[4]
if over > 0 then
    local oldest = redis.call('ZPOPMIN', KEYS[2], over)
    for index = 1, #oldest, 2 do redis.call('DEL', oldest[index]) end
end
"""
"""Publish on a stream, and forget those that are too many: `KEYS` are the stream and `CHANNELS`,
`ARGV` the message, messages per stream, milliseconds until it is forgotten, streams."""


def key_of(channel: str) -> str:
    """The stream of a channel."""
    return f"wharfinger:bus:{channel}"


def position_of(entry_id: str) -> Position:
    """From the server's spelling."""
    at, _, sequence = entry_id.partition("-")
    return int(at), int(sequence)


def spelled(position: Position) -> str:
    """In the server's spelling."""
    return f"{position[0]}-{position[1]}"


def encode(message: Message) -> str:
    """A message as its entry holds it."""
    return json.dumps(
        [message.id, message.kind, message.data, message.coalesce], separators=(",", ":")
    )


def decode(entry: Entry) -> Message | None:
    """The message of an entry; None when another version wrote it."""
    try:
        message_id, kind, data, coalesce = json.loads(entry[1]["message"])
    except (KeyError, ValueError):
        return None
    return Message(message_id, kind, data, coalesce)


def decode_all(entries: Sequence[Any]) -> list[Message]:
    """The messages of these entries, in their order."""
    return [message for entry in entries if (message := decode(entry)) is not None]
