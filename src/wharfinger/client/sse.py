"""Server-sent events, read as the WHATWG HTML standard says (section 9.2.6)."""

import codecs
import re
from dataclasses import dataclass
from typing import Final

MAX_EVENT: Final = 64 * 1024 * 1024
"""Characters one event may have: a task of some ten thousand items has less."""

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class EventTooLong(ValueError):
    """The stream holds an event longer than is reasonable."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `id` is the last id the stream gave, empty when it gave none."""

    id: str
    name: str
    data: str


class Parser:
    """Takes the bytes of one stream in pieces of any size and gives the events they complete.

    What follows the last blank line is not an event. Fields nobody knows are ignored.
    """

    def __init__(self, *, max_event: int = MAX_EVENT) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._max_event = max_event
        self._at_start = True
        self._after_return = False
        self._line: list[str] = []
        self._name = ""
        self._data: list[str] = []
        self._last_id = ""
        self._length = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events `chunk` completes. Raises `EventTooLong`."""
        text = self._decoder.decode(chunk)
        if text and self._at_start:
            self._at_start = False
            text = text.removeprefix("\ufeff")
        if text and self._after_return:
            self._after_return = False
            text = text.removeprefix("\n")
        if not text:
            return []
        self._after_return = text.endswith("\r")

        *ended, rest = _LINE_END.split(text)
        events = []
        for end in ended:
            self._grow(end)
            line = "".join(self._line)
            self._line.clear()
            if line:
                self._take(line)
            elif event := self._complete():
                events.append(event)
        self._grow(rest)
        return events

    def _grow(self, piece: str) -> None:
        self._length += len(piece)
        if self._length > self._max_event:
            raise EventTooLong(f"an event of more than {self._max_event} characters")
        self._line.append(piece)

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._name = value
            case "id" if "\0" not in value:
                self._last_id = value
            case _:  # a comment (its name is empty), or a field nobody knows
                self._length -= len(line)

    def _complete(self) -> Event | None:
        data, name = self._data, self._name
        self._data, self._name, self._length = [], "", 0
        if not data:
            return None
        return Event(self._last_id, name or "message", "\n".join(data))
