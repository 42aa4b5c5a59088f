"""The live display: a pure function of the task and the terminal's size."""

from hypothesis import given
from hypothesis import strategies as st
from rig.task_answers import failure, item, task

from wharfinger.cli.display.columns import ASCII, FANCY, Glyphs
from wharfinger.cli.display.layout import ORDER, render, short_name

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
ITEMS = st.lists(
    st.builds(
        item,
        TEXT,
        st.sampled_from(ORDER),
        st.sampled_from(["r:5000/app:v1", "r:5000/other@sha256:" + "b" * 64]),
        attempts=st.integers(0, 4),
        bytesDone=st.integers(0, 2**40),
        bytesTotal=st.integers(0, 2**40),
        bytesPerSecond=st.none() | st.floats(0, 2**40),
        etaSeconds=st.none() | st.floats(0, 10**7),
    ),
    max_size=30,
)


def lines(*args: object, width: int = 100, height: int = 20, glyphs: Glyphs = FANCY) -> list[str]:
    drawn = render(task(*args), width, height, glyphs)  # type: ignore[arg-type]  # items
    return ["".join(text for text, _ in line) for line in drawn]


@given(ITEMS, st.integers(1, 250), st.integers(1, 60), st.sampled_from([FANCY, ASCII]))
def test_nothing_is_wider_or_higher_than_the_terminal(
    items: list[object], width: int, height: int, glyphs: Glyphs
) -> None:
    drawn = lines(*items, width=width, height=height, glyphs=glyphs)
    assert len(drawn) <= height
    assert all(len(line) <= width for line in drawn)


@given(ITEMS, st.integers(3, 60))
def test_every_item_has_a_line_or_is_counted(items: list[object], height: int) -> None:
    drawn = lines(*items, height=height, width=200)[2:]
    counted = 0
    if drawn and drawn[-1].startswith("and "):
        counted = int(drawn.pop().split()[1])
    assert len(drawn) + counted == len(items)


def test_those_that_run_or_failed_come_first() -> None:
    drawn = lines(
        *(item(f"done-{n}", "done") for n in range(30)),
        item("ill", "failed"),
        item("busy", "running"),
        height=6,
    )
    assert drawn[2].startswith("busy")
    assert drawn[3].startswith("ill")
    assert drawn[-1] == "and 29 more: 29 done"


def test_a_wide_terminal_shows_all_there_is() -> None:
    heading, overall, row = lines(item("gpu-a"), width=140)
    assert heading == "preload task-1 · 1 running"
    assert overall.startswith("all")
    for piece in (" 50 %", "50.0 MiB of 100 MiB", "10.0 MiB/s", "0:05 left", "downloading"):
        assert piece in row


def test_a_narrow_terminal_keeps_name_share_and_phase() -> None:
    row = lines(item("gpu-a"), width=60)[2]
    assert row.startswith("gpu-a")
    assert " 50 %" in row
    assert "downloading" in row
    assert "MiB/s" not in row


def test_a_failure_is_shown_with_class_and_sentence() -> None:
    assert lines(item("gpu-a", "failed"))[2] == "gpu-a  failed: no-space: the disk is full"


def test_another_try_says_which_and_after_what() -> None:
    row = lines(item("gpu-a", attempts=2, phase="retrying", failure=failure("network")))[2]
    assert row.endswith("retrying, attempt 2, after network")


def test_the_image_is_named_only_where_there_are_several() -> None:
    one = lines(item("a"), item("b"))
    two = lines(item("a"), item("a", reference="r/other:v2"))
    assert not any("app:v1" in line for line in one)
    assert two[3].startswith("a other:v2")


def test_a_terminal_without_unicode_gets_plain_characters() -> None:
    assert all(line.isascii() for line in lines(item("a"), item("b", "queued"), glyphs=ASCII))


def test_short_names_keep_the_tag_or_the_digests_beginning() -> None:
    assert short_name("127.0.0.1:5000/team/app:v1") == "app:v1"
    assert short_name("[::1]:5992/app@sha256:" + "c" * 64) == "app@cccccccccccc"
    assert short_name("r/app:v1@sha256:" + "c" * 64) == "app:v1"
