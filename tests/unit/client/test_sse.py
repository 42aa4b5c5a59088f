"""Server-sent events, by the standard's rules."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.client.sse import Event, EventTooLong, Parser


def parse(stream: bytes) -> list[Event]:
    return Parser().feed(stream)


def straightforward(stream: bytes) -> list[Event]:
    """The standard's algorithm, written down over the whole stream."""
    text = stream.decode("utf-8", errors="replace").removeprefix("\ufeff")
    *lines, _ = re.split(r"\r\n|\r|\n", text)
    events, data, name, last_id = [], "", "", ""
    for line in lines:
        if not line:
            if data:
                events.append(Event(last_id, name or "message", data.removesuffix("\n")))
            data, name = "", ""
            continue
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            data += value + "\n"
        elif key == "event":
            name = value
        elif key == "id" and "\0" not in value:
            last_id = value
    return events


PIECES = st.sampled_from(
    [
        b"data: x",
        b"data",
        b"data:",
        b"data:  two spaces",
        b"event: bgtask_updated",
        b"id: 3-17",
        b"id",
        b"id: a\0b",
        b": a comment",
        b"retry: 10",
        b"unknown: field",
        "data: grüße ☃ \u2028 \U0001f6a2".encode(),
        b"data: \xff broken",
        b"\xef\xbb\xbf",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
    ]
)


@given(st.lists(PIECES).map(b"".join), st.data())
def test_any_chunking_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    parser = Parser()
    events = [
        event
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for event in parser.feed(stream[begin:end])
    ]
    assert events == straightforward(stream)


def test_data_of_several_lines_is_joined() -> None:
    assert parse(b"data: a\ndata: b\n\n") == [Event("", "message", "a\nb")]


def test_an_id_stays_until_the_next_one() -> None:
    events = parse(b"id: 1-1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n")
    assert [event.id for event in events] == ["1-1", "1-1", ""]


def test_a_name_is_forgotten_after_its_event() -> None:
    events = parse(b"event: end\ndata: a\n\ndata: b\n\n")
    assert [event.name for event in events] == ["end", "message"]


def test_comments_and_events_without_data_are_not_events() -> None:
    assert parse(b": ping\n\nevent: end\n\n") == []


def test_what_no_blank_line_ends_is_not_an_event() -> None:
    assert parse(b"data: a\n") == []


def test_a_long_line_in_many_pieces_is_one_event() -> None:
    parser = Parser()
    for _ in range(200):
        assert parser.feed(b"" if _ else b"data: ") == []
        assert parser.feed(b"x" * 10_000) == []
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) == 2_000_000


@pytest.mark.parametrize(
    "piece", [b"data: 0123456789", b"data: 0123456789\n", b"name0123456789\xc3"]
)
def test_an_event_without_end_is_refused_within_the_bound(piece: bytes) -> None:
    parser = Parser(max_event=1000)

    def feed_for_ever() -> None:
        for _ in range(100):
            parser.feed(piece)

    with pytest.raises(EventTooLong):
        feed_for_ever()


def test_comments_do_not_count_against_the_bound() -> None:
    parser = Parser(max_event=100)
    for _ in range(100):
        assert parser.feed(b": still here\n") == []
    assert parser.feed(b"data: a\n\n") == [Event("", "message", "a")]
