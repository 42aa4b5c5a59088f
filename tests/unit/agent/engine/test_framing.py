import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.agent.engine.framing import JsonFrames, MalformedStream

_texts = st.text(st.sampled_from('{}[]"\\\n\x00 a€😀'), max_size=6)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_objects = st.lists(st.dictionaries(_texts, _values, max_size=3), max_size=4)
_separators = st.sampled_from(["\r\n", "\n", "", " ", "\n\n"])


@st.composite
def _split_streams(draw: st.DrawFn) -> tuple[list[Any], list[bytes]]:
    objects = draw(_objects)
    ascii_only = draw(st.booleans())
    text = "".join(
        json.dumps(each, ensure_ascii=ascii_only) + draw(_separators) for each in objects
    )
    raw = text.encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    return objects, pieces


@settings(deadline=None)
@given(_split_streams())
def test_any_split_of_any_objects_gives_the_same_objects(
    stream: tuple[list[Any], list[bytes]],
) -> None:
    objects, pieces = stream
    frames = JsonFrames()
    assert [found for piece in pieces for found in frames.feed(piece)] == objects
    assert not frames.unfinished


def test_single_bytes_give_the_same_objects() -> None:
    objects = [{"a": '\\"}{ €'}, {}, {"b": [{"c": None}, "\n"]}]
    raw = "".join(json.dumps(each, ensure_ascii=False) for each in objects).encode()
    frames = JsonFrames()
    assert [found for at in range(len(raw)) for found in frames.feed(raw[at : at + 1])] == objects


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_arbitrary_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    frames = JsonFrames()
    try:
        for piece in pieces:
            frames.feed(piece)
    except MalformedStream:
        pass


def test_an_object_of_400_kb_in_pieces_of_three_bytes_is_read() -> None:
    event = {"Actor": {"Attributes": {"label": 'x{}[]\\"' * 50_000}}}
    raw = json.dumps(event).encode()
    frames = JsonFrames()
    found = [each for at in range(0, len(raw), 3) for each in frames.feed(raw[at : at + 3])]
    assert found == [event]


def test_an_object_beyond_the_limit_is_refused() -> None:
    frames = JsonFrames(limit=1000)
    with pytest.raises(MalformedStream, match="more than 1000 bytes"):
        frames.feed(b'{"label": "' + b"x" * 1000)


def test_a_stream_that_ends_inside_an_object_is_unfinished() -> None:
    frames = JsonFrames()
    assert frames.feed(b'{"a": 1}{"status": "Down') == [{"a": 1}]
    assert frames.unfinished


@pytest.mark.parametrize(
    "raw", [b"}", b'{"a"]', b'{"a": "line\nends"}', b"[" * 100, b"{'single': 1}"]
)
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedStream):
        JsonFrames().feed(raw)
