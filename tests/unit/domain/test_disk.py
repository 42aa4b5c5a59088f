"""What a pull takes at least, by the store's own way of counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.disk import CLASSIC, CONTAINERD, differs, kept, needed, shortfall

GIB = 1024**3
MIB = 1024**2

layers = st.lists(st.integers(0, 100 * GIB), max_size=40)
stores = st.sampled_from([CLASSIC, CONTAINERD, "overlay", ""])
amounts = st.integers(0, 10**15)


@pytest.mark.parametrize(
    ("store", "missing", "expected"),
    [
        (CLASSIC, [GIB], 2 * GIB),
        (CONTAINERD, [GIB], 2 * GIB),
        ("overlay", [GIB], GIB),
        (CLASSIC, [5, 1], 10),
        (CLASSIC, [1, 5], 11),
        (CONTAINERD, [1, 5], 12),
        (CLASSIC, [], 0),
    ],
)
def test_each_store_counts_in_its_own_way(store: str, missing: list[int], expected: int) -> None:
    assert needed(missing, store) == expected


@given(layers, stores)
def test_a_pull_takes_its_layers_at_least_and_no_more_than_twice(
    missing: list[int], store: str
) -> None:
    assert sum(missing) <= needed(missing, store) <= 2 * sum(missing)


@given(layers, stores)
def test_what_is_kept_in_the_end_is_no_more_than_the_peak(missing: list[int], store: str) -> None:
    assert sum(missing) <= kept(missing, store) <= needed(missing, store)


@given(layers, stores)
def test_the_classic_store_takes_no_more_than_containerds(missing: list[int], store: str) -> None:
    assert needed(missing, store) <= needed(missing, CONTAINERD)


@given(layers, st.integers(0, GIB), stores)
def test_another_layer_never_takes_less(missing: list[int], more: int, store: str) -> None:
    assert needed([*missing, more], store) >= needed(missing, store)


@given(amounts, amounts, amounts)
def test_what_lacks_is_what_it_takes_to_fit(free: int, need: int, margin: int) -> None:
    lacking = shortfall(free, need, margin)
    assert lacking >= 0
    assert (lacking == 0) == (free - need >= margin)
    assert shortfall(free + lacking, need, margin) == 0


def disk(free: int, total: int = 100 * GIB) -> dict[str, int]:
    return {"free": free, "total": total}


@pytest.mark.parametrize(
    ("known", "seen", "expected"),
    [
        (None, None, False),
        (None, disk(GIB), True),
        (disk(GIB), None, True),
        (disk(GIB), disk(GIB), False),
        (disk(GIB), disk(GIB - 10 * MIB), False),
        (disk(GIB), disk(GIB - 11 * MIB), True),
        (disk(50 * GIB), disk(50 * GIB + 64 * MIB), False),
        (disk(50 * GIB), disk(50 * GIB + 65 * MIB), True),
        (disk(GIB), disk(GIB, 200 * GIB), True),
        (disk(0), disk(1), True),
    ],
)
def test_small_changes_of_a_disk_are_not_worth_a_note(
    known: dict[str, int] | None, seen: dict[str, int] | None, expected: bool
) -> None:
    assert differs(known, seen) is expected
