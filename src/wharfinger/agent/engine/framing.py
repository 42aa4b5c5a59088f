"""JSON objects out of a byte stream, whatever its pieces and line ends.

Engines end objects with CR and LF, with LF, or with nothing; one object may take 400 kB (a container
event repeats every label), and pieces arrive cut anywhere. So objects are found by their brackets.
"""

import json
import re
from typing import Any, Final

LIMIT: Final = 16 * 1024 * 1024
"""Bytes one object may take."""
_DEPTH_LIMIT: Final = 64

_OUTSIDE_STRING: Final = re.compile(rb'[{}\[\]"]')
_INSIDE_STRING: Final = re.compile(rb'["\\\n]')
_OPENING: Final = frozenset(b"{[")
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")


class MalformedStream(ValueError):
    """These bytes are no stream of JSON objects."""


class JsonFrames:
    """Feed it bytes, it gives the objects (and arrays) that are complete.

    Bytes between objects are skipped. Each byte is looked at once, however small the pieces.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._at = 0
        self._depth = 0
        self._in_string = False

    @property
    def unfinished(self) -> bool:
        """Whether an object has begun and not ended: at the stream's end, that it was cut."""
        return self._depth > 0

    def feed(self, data: bytes) -> list[Any]:
        """The objects completed by these bytes; raises `MalformedStream`."""
        self._buffer += data
        frames = []
        while (frame := self._next_frame()) is not None:
            frames.append(_decoded(frame))
        if not self.unfinished and not self._in_string:
            self._drop(len(self._buffer))
        if len(self._buffer) > self._limit:
            raise MalformedStream(f"an object of more than {self._limit} bytes")
        return frames

    def _next_frame(self) -> bytes | None:
        while True:
            pattern = _INSIDE_STRING if self._in_string else _OUTSIDE_STRING
            found = pattern.search(self._buffer, self._at)
            if found is None:
                self._at = len(self._buffer)
                return None
            byte = self._buffer[found.start()]
            self._at = found.end()
            if byte == _BACKSLASH:
                if self._at == len(self._buffer):  # what it escapes is not here yet
                    self._at = found.start()
                    return None
                self._at += 1
            elif self._in_string:
                if byte != _QUOTE:
                    raise MalformedStream("a line ends inside a string")
                self._in_string = False
            elif byte == _QUOTE:
                self._in_string = True
            elif byte in _OPENING:
                self._open(found.start())
            elif self._close():
                return self._drop(self._at)

    def _open(self, start: int) -> None:
        if self._depth == 0:
            self._drop(start)
            self._at = 1
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise MalformedStream(f"nested more than {_DEPTH_LIMIT} deep")

    def _close(self) -> bool:
        """Whether that closed the outermost bracket."""
        if self._depth == 0:
            raise MalformedStream("a bracket closes what was not opened")
        self._depth -= 1
        return self._depth == 0

    def _drop(self, count: int) -> bytes:
        dropped = bytes(self._buffer[:count])
        del self._buffer[:count]
        self._at = 0
        return dropped


def _decoded(frame: bytes) -> Any:
    try:
        return json.loads(frame.decode(errors="replace"))
    except ValueError as error:
        raise MalformedStream(str(error)) from error
