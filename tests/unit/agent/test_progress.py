import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.agent.engine.port import LayerEvent, LayerStep
from wharfinger.agent.progress import PullProgress
from wharfinger.domain.progress import Layer, Phase

A, B = "a" * 12, "b" * 12
LAYERS = (Layer("sha256:" + "a" * 64, 100), Layer("sha256:" + "b" * 64, 300))


def progress() -> PullProgress:
    pull = PullProgress(LAYERS)
    pull.streaming()
    return pull


def test_a_pull_waits_until_the_engine_is_asked() -> None:
    pull = PullProgress(LAYERS)
    assert pull.report("t").phase == "waiting"
    pull.streaming()
    assert pull.report("t").phase == "downloading"


def test_half_of_a_byte_is_its_download_and_half_its_extraction() -> None:
    pull = progress()
    pull.saw(LayerEvent(A, LayerStep.DOWNLOADING, 50))
    assert pull.report("t").bytes_done == 25
    pull.saw(LayerEvent(A, LayerStep.EXTRACTING, 50))
    assert pull.report("t").bytes_done == 75
    pull.saw(LayerEvent(B, LayerStep.DONE))
    report = pull.report("t")
    assert (report.bytes_done, report.bytes_total) == (375, 400)
    assert report.phase is Phase.EXTRACTING


def test_all_bytes_are_done_only_once_verified() -> None:
    pull = progress()
    for layer in (A, B):
        pull.saw(LayerEvent(layer, LayerStep.DONE))
    assert pull.phase is Phase.VERIFYING
    assert pull.report("t").bytes_done == 399
    pull.verified()
    assert pull.report("t").bytes_done == 400


def test_a_repeated_number_is_no_sign_of_life() -> None:
    pull = progress()
    line = LayerEvent(A, LayerStep.DOWNLOADING, 50)
    assert pull.saw(line)
    assert not pull.saw(line)
    assert pull.saw(LayerEvent(A, LayerStep.DOWNLOADING, 51))


def test_a_layer_fetched_anew_lives_below_its_former_number() -> None:
    pull = progress()
    pull.saw(LayerEvent(A, LayerStep.DOWNLOADING, 90))
    pull.saw(LayerEvent(A, LayerStep.RETRYING))
    assert pull.report("t").phase == "retrying"
    pull.saw(LayerEvent(A, LayerStep.DOWNLOADING, 10))
    assert pull.saw(LayerEvent(A, LayerStep.DOWNLOADING, 20))
    assert pull.report("t").phase == "retrying"
    assert pull.report("t").bytes_done == 45
    pull.saw(LayerEvent(A, LayerStep.DOWNLOADING, 90))
    assert pull.report("t").phase == "downloading"


@pytest.mark.parametrize(
    "line", [LayerEvent(A, LayerStep.RETRYING), LayerEvent(A, LayerStep.EXTRACTING)]
)
def test_retries_and_untold_extraction_are_signs_of_life(line: LayerEvent) -> None:
    pull = progress()
    pull.saw(line)
    assert pull.saw(line)


def test_layers_behind_other_pulls_wait_but_a_silent_one_does_not() -> None:
    pull = progress()
    pull.saw(LayerEvent(A, LayerStep.WAITING))
    assert not pull.queued, "the other layer was not mentioned: its request may hang"
    pull.saw(LayerEvent(B, LayerStep.DOWNLOADING, 0))
    assert not pull.queued
    pull.saw(LayerEvent(B, LayerStep.WAITING))
    assert pull.queued
    assert pull.phase is Phase.WAITING
    pull.saw(LayerEvent(B, LayerStep.DONE))
    assert pull.queued
    pull.saw(LayerEvent(A, LayerStep.DOWNLOADING, 0))
    assert not pull.queued


lines = st.builds(
    LayerEvent,
    layer=st.sampled_from([A, B, "c" * 12]),
    step=st.sampled_from(LayerStep),
    current=st.none() | st.integers(0, 1000),
)


@given(st.lists(lines))
def test_whatever_an_engine_says_progress_never_falls_nor_ends_early(
    said: list[LayerEvent],
) -> None:
    pull = progress()
    before = 0
    for line in said:
        pull.saw(line)
        report = pull.report("t")
        assert before <= report.bytes_done < report.bytes_total
        assert report.phase in Phase
        before = report.bytes_done
