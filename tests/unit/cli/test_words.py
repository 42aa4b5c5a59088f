"""Sizes and times as a person reads them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.cli import words


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (812 * 1024**3, "812 GiB"),
        (1024**2 - 1, "1.0 MiB"),
    ],
)
def test_sizes_are_binary_and_short(count: int, text: str) -> None:
    assert words.size(count) == text


@given(st.integers(0, 2**62))
def test_a_size_is_never_long(count: int) -> None:
    assert len(words.size(count)) <= len("1000 MiB")


@given(st.integers(0, 10**15), st.integers(1, 10**15))
def test_a_hundred_per_cent_is_only_all(done: int, total: int) -> None:
    assert (words.share(done, total) == 100) == (done >= total)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (float("inf"), ""), (7.2, "0:07"), (750, "12:30"), (11100, "3:05:00")],
)
def test_time_left_reads_like_a_clock(seconds: float | None, text: str) -> None:
    assert words.clock(seconds) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, "-"),
        ("2026-01-02T00:00:00Z", "4 s"),
        ("2026-01-01T23:48:00", "12 min"),
        ("2026-01-01T20:00:04+00:00", "4 h"),
        ("2025-12-24T00:00:00Z", "9 d"),
    ],
)
def test_ages_are_one_unit(moment: str | None, text: str) -> None:
    assert words.since(moment, datetime(2026, 1, 2, 0, 0, 4, tzinfo=UTC)) == text


def test_moments_are_told_in_utc_and_whole_seconds() -> None:
    assert words.moment("2026-01-02T04:04:05.678901+01:00") == "2026-01-02 03:04:05 UTC"


def test_foreign_text_cannot_move_the_cursor() -> None:
    assert words.plain("\x1b[2Jgone\nnext\u202e") == "\ufffd[2Jgone next\ufffd"


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("No token was sent.", "no token was sent"),
        ("A role is one of two", "a role is one of two"),
        ("SQLite needs a file: sqlite:///path", "SQLite needs a file: sqlite:///path"),
        ("HTTP 404", "HTTP 404"),
        ("the end. And more.", "the end. And more"),
        ("", ""),
    ],
)
def test_what_follows_error_begins_small_and_has_no_full_stop(sentence: str, told: str) -> None:
    assert words.remark(sentence) == told


def test_slots_are_told_with_their_units() -> None:
    asked = {"cpu": 0.5, "mem": 4 * 2**30, "gpu": 0}
    assert words.slots(asked) == "0.5 cpu, 4.0 GiB mem"
    assert words.slots({}) == "-"
    most = {"cpu": 8.0, "mem": 16 * 2**30, "gpu": None}
    assert words.used(asked, most) == "cpu 0.5/8, mem 4.0 GiB/16.0 GiB, gpu 0/?"
