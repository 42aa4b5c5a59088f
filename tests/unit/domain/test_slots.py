"""Slots: what a kernel needs and a host has."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.slots import MOST, Quota, Slots, parse_cpu, parse_mem

amounts = st.integers(0, MOST)
slots = st.builds(Slots, amounts, amounts, amounts)


@given(slots, slots)
def test_what_was_taken_can_be_given_back(room: Slots, taken: Slots) -> None:
    assert room - taken + taken == room


@given(slots, slots)
def test_slots_fit_exactly_when_none_of_what_is_left_is_negative(asked: Slots, room: Slots) -> None:
    left = room - asked
    assert asked.fits(room) == (min(left.cpu, left.mem, left.gpu) >= 0)


@given(st.builds(Slots, st.integers(0, 10**9), amounts, amounts))
def test_json_loses_nothing(some: Slots) -> None:
    assert Slots.from_json(some.to_json()) == some


def test_what_json_lacks_is_nothing() -> None:
    assert Slots.from_json({"cpu": 0.5}) == Slots(cpu=500)


@given(slots, st.builds(Quota, *[st.none() | amounts] * 3))
def test_a_quota_is_exceeded_by_what_is_more_than_it_and_by_nothing_else(
    some: Slots, quota: Quota
) -> None:
    exceeded = quota.exceeded_by(some)
    for name in ("cpu", "mem", "gpu"):
        most = getattr(quota, name)
        assert (name in exceeded) == (most is not None and getattr(some, name) > most)


@pytest.mark.parametrize(
    ("text", "thousandths"), [("2", 2000), ("0.5", 500), ("250m", 250), ("1.125", 1125)]
)
def test_processors_are_read(text: str, thousandths: int) -> None:
    assert parse_cpu(text) == thousandths


@pytest.mark.parametrize(
    "text", ["", "m", "0", "-1", "1.0005", "0.5m", "nan", "inf", "x", "\uff12", "1e30", "1 2"]
)
def test_what_is_no_number_of_processors_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"processors|more than any host"):
        parse_cpu(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4g", 4 * 2**30),
        ("512m", 512 * 2**20),
        ("1.5GiB", 3 * 2**29),
        ("1 kb", 1024),
        ("123", 123),
        ("2T", 2**41),
    ],
)
def test_amounts_of_memory_are_read(text: str, size: int) -> None:
    assert parse_mem(text) == size


@pytest.mark.parametrize(
    "text", ["", "0", "g", "-4g", "4x", "4gg", "\uff10", "1e3", "99999999t", "0.5"]
)
def test_what_is_no_amount_of_memory_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"memory|more than any host"):
        parse_mem(text)


numerals = st.from_regex(r"-?[0-9]{0,9}\.?[0-9]{0,9}(e[+-]?[0-9]{1,20})?[mgtk]?", fullmatch=True)


@given(st.text(max_size=20) | numerals)
@example("1e9999999")
@example("1e999999999999999999m")
@example("1e-9999999")
@example("9" * 5000)
@example("0." + "9" * 5000)
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_cpu, parse_mem):
        with suppress(InvalidRequest):
            assert 0 < parse(text) <= MOST
