from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.progress import ImageProgress, Layer, RateWindow

LAYERS = [
    Layer("sha256:" + letter * 64, size) for letter, size in zip("abc", (10, 0, 7), strict=True)
]

steps = st.lists(
    st.tuples(
        st.sampled_from(["downloaded", "extracted"]),
        st.sampled_from(["a" * 12, "sha256:" + "b" * 64, "c" * 12, "d" * 12]),
        st.none() | st.integers(0, 20),
    )
)


def walk(progress: ImageProgress, steps: Sequence[tuple[str, str, int | None]]) -> list[int]:
    seen = [progress.done]
    for step, layer, current in steps:
        getattr(progress, step)(layer, current)
        seen.append(progress.done)
    return seen


@given(steps)
def test_progress_never_falls_and_is_whole_only_when_verified(
    steps: list[tuple[str, str, int | None]],
) -> None:
    progress = ImageProgress(LAYERS)
    seen = walk(progress, steps)
    assert seen == sorted(seen)
    assert seen[-1] < progress.total == 17
    assert 0 <= progress.to_download <= progress.total
    progress.verified()
    assert progress.done == progress.total
    assert progress.to_download == 0


@given(steps)
def test_activity_grows_with_every_new_byte_and_only_then(
    steps: list[tuple[str, str, int | None]],
) -> None:
    progress = ImageProgress(LAYERS)
    walk(progress, steps)
    before = progress.activity
    walk(progress, steps)
    assert progress.activity == before


def test_a_byte_counts_half_when_downloaded_and_half_when_extracted() -> None:
    progress = ImageProgress(LAYERS)
    progress.downloaded("a" * 12, 10)
    assert progress.done == 5
    progress.extracted("a" * 12, 4)
    assert progress.done == 7


def test_what_is_here_is_not_to_be_downloaded_unpacked_or_not() -> None:
    progress = ImageProgress(LAYERS)
    progress.downloaded("a" * 12, 4)
    assert progress.to_download == 13
    progress.extracted("c" * 12)
    assert progress.to_download == 6


def test_a_layer_listed_twice_counts_once() -> None:
    assert ImageProgress([LAYERS[0], LAYERS[0]]).total == 10


def test_an_image_without_bytes_is_whole_once_verified() -> None:
    progress = ImageProgress([])
    assert (progress.done, progress.total) == (0, 0)
    progress.verified()
    assert progress.done == 0


def test_the_rate_comes_from_the_last_thirty_seconds() -> None:
    window = RateWindow()
    for second in range(61):
        window.add(second, 100 * second if second <= 30 else 3000 + 10 * (second - 30))
    assert window.rate == pytest.approx(10)
    assert window.eta(50) == pytest.approx(5)


def test_without_two_samples_no_rate_is_claimed() -> None:
    window = RateWindow()
    assert window.rate is None
    window.add(0.0, 5)
    assert window.rate is None
    assert window.eta(5) is None
    assert window.eta(0) == 0


def test_a_standing_pull_has_no_time_left() -> None:
    window = RateWindow()
    window.add(0, 5)
    window.add(1, 5)
    assert window.eta(5) is None
