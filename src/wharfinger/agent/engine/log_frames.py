"""A container's log out of the engine's byte stream.

Without a terminal both outputs come in frames: the stream's number (1 output, 2 errors, 3 the
engine's own trouble), three zeros, four bytes of length, the content. With one it comes as it is.
"""

from typing import Final

from wharfinger.agent.engine.framing import MalformedStream

_HEADER_SIZE: Final = 8
_STREAMS: Final = frozenset({0, 1, 2})
_TROUBLE: Final = 3


class LogFrames:
    """Feed it bytes, it gives what the frames hold, in pieces: a frame may be of any size, so
    none is kept."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._left = 0
        """Bytes of the present frame that have not come."""

    @property
    def unfinished(self) -> bool:
        """Whether a frame has begun and not ended: at the stream's end, that it was cut."""
        return bool(self._header) or self._left > 0

    def feed(self, data: bytes) -> list[bytes]:
        """The content in these bytes; raises `MalformedStream`."""
        pieces = []
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                pieces.append(piece)
            else:
                piece = data[at : at + _HEADER_SIZE - len(self._header)]
                self._header += piece
                self._begin()
            at += len(piece)
        return pieces

    def _begin(self) -> None:
        """Enter the frame whose header is complete, if it is."""
        if len(self._header) < _HEADER_SIZE:
            return
        if self._header[0] == _TROUBLE:
            raise MalformedStream("the engine cannot read on in its log")
        if self._header[0] not in _STREAMS or any(self._header[1:4]):
            raise MalformedStream(f"no frame of a log begins with {self._header.hex()}")
        self._left = int.from_bytes(self._header[4:], "big")
        self._header.clear()


class RawLog:
    """The log of a container with a terminal, which has no frames."""

    unfinished = False

    def feed(self, data: bytes) -> list[bytes]:
        """The bytes themselves."""
        return [data]
