from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.agent.engine.framing import MalformedStream
from wharfinger.agent.engine.log_frames import LogFrames, RawLog


def frame(stream: int, content: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4, "big") + content


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=6),
    st.lists(st.integers(0, 300), max_size=20),
)
def test_content_comes_whole_and_in_order_however_the_stream_is_cut(
    written: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(frame(*each) for each in written)
    frames = LogFrames()
    pieces = []
    for start, end in pairwise(sorted({0, *cuts, len(stream)})):
        pieces += frames.feed(stream[start:end])
    assert b"".join(pieces) == b"".join(content for _, content in written)
    assert all(pieces)
    assert not frames.unfinished


def test_a_frame_of_any_size_is_passed_on_as_it_comes() -> None:
    frames = LogFrames()
    assert frames.feed(b"\x01\0\0\0\xff\xff\xff\xff") == []
    assert frames.feed(b"a" * 1000) == [b"a" * 1000]
    assert frames.unfinished


@pytest.mark.parametrize("size", [1, 7, 8, 10])
def test_a_frame_that_has_begun_is_unfinished(size: int) -> None:
    frames = LogFrames()
    frames.feed(frame(1, b"abc")[:size])
    assert frames.unfinished


@pytest.mark.parametrize("stream", [b"hello, world", frame(9, b""), b"\x01\0\0\x01\0\0\0\0"])
def test_what_is_no_frame_is_told(stream: bytes) -> None:
    with pytest.raises(MalformedStream, match="begins with"):
        LogFrames().feed(stream)


def test_the_engines_own_trouble_is_no_content() -> None:
    with pytest.raises(MalformedStream, match="cannot read on"):
        LogFrames().feed(frame(3, b"error grabbing logs"))


def test_a_terminals_log_is_passed_on_as_it_is() -> None:
    log = RawLog()
    assert log.feed(b"\x01hello\r\n") == [b"\x01hello\r\n"]
    assert not log.unfinished
