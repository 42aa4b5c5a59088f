"""A session on the screen: bars, plain lines and a last sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.session_answers import kernel, pull, session
from rig.task_answers import MIB, failure

from wharfinger.cli.display import session_summary
from wharfinger.cli.display.columns import ASCII, FANCY, Glyphs
from wharfinger.cli.display.lines import PROGRESS_SECONDS
from wharfinger.cli.display.session_layout import render
from wharfinger.cli.display.session_lines import SessionLog
from wharfinger.client.shapes import Kernel, Session
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus

KERNELS = st.lists(
    st.builds(
        kernel,
        st.sampled_from([status.value for status in KernelStatus]),
        st.uuids().map(str),
        reference=st.sampled_from(["r:5000/app:v1", "r:5000/\x1bother@sha256:" + "b" * 64]),
        statusInfo=st.sampled_from(["", *(reason.value for reason in Reason)]),
        pull=st.none()
        | st.builds(
            pull,
            st.integers(0, 100),
            bytesTotal=st.integers(0, 2**40),
            bytesPerSecond=st.none() | st.floats(0, 2**40),
            etaSeconds=st.none() | st.floats(0, 10**7),
        ),
    ),
    min_size=1,
    max_size=12,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def drawn(made: Session, width: int = 110, height: int = 20, glyphs: Glyphs = FANCY) -> list[str]:
    return ["".join(text for text, _ in line) for line in render(made, width, height, glyphs)]


@given(KERNELS, st.integers(1, 200), st.integers(1, 20), st.sampled_from([FANCY, ASCII]))
def test_nothing_is_wider_or_higher_than_the_terminal(
    kernels: list[Kernel], width: int, height: int, glyphs: Glyphs
) -> None:
    lines = drawn(session(*kernels), width, height, glyphs)
    assert len(lines) <= height
    assert all(len(line) <= width and "\x1b" not in line for line in lines)


@given(KERNELS, st.integers(2, 20))
def test_every_kernel_has_a_line_or_is_counted(kernels: list[Kernel], height: int) -> None:
    lines = drawn(session(*kernels), height=height)[1:]
    counted = int(lines.pop().split()[1]) if lines[-1].startswith("and ") else 0
    assert len(lines) + counted == len(kernels)


def test_a_pull_is_a_bar_with_bytes_rate_and_time_left() -> None:
    heading, row = drawn(session(kernel("PULLING")), width=140)
    assert heading == "session s1 · PULLING"
    for piece in ("app:v1", " 50 %", "50.0 MiB of 100 MiB", "10.0 MiB/s", "0:05 left"):
        assert piece in row
    assert row.endswith("downloading on gpu-a")


def test_what_waits_says_why() -> None:
    waits = kernel(statusInfo="in-line", statusData={"sessionId": "s0"})
    assert drawn(session(waits, name="train")) == [
        "session train s1 · PENDING",
        "app:v1  PENDING: session s0 comes first",
    ]


def test_what_pulls_is_shown_first_when_not_all_fit() -> None:
    lines = drawn(session(*(kernel() for _ in range(9)), kernel("PULLING")), height=4)
    assert "50 %" in lines[1]
    assert lines[-1] == "and 8 more: 8 PENDING"


def test_each_change_of_a_kernel_is_one_line() -> None:
    log = SessionLog(Clock())
    resolving = kernel(statusInfo="resolving-image")
    assert log.update(session(resolving)) == [
        "session s1: PENDING",
        "r:5000/app:v1: PENDING: its registry is being asked for the image",
    ]
    assert log.update(session(resolving)) == []
    assert log.update(session(kernel("PULLING"))) == ["r:5000/app:v1: PULLING on gpu-a"]
    assert log.update(session(kernel("PULLING", pull=pull(60)))) == []
    assert log.update(session(kernel("RUNNING"))) == ["r:5000/app:v1: RUNNING on gpu-a"]
    ended = kernel("TERMINATED", exitCode=3, statusInfo="container-ended")
    assert log.update(session(ended)) == [
        "r:5000/app:v1: TERMINATED on gpu-a: exit code 3: its container ended"
    ]


def test_kernels_are_numbered_where_there_are_several() -> None:
    told = SessionLog(Clock()).update(session(kernel(), kernel("ERROR", "k2", failure=failure())))
    assert told[1:] == [
        "kernel 1 r:5000/app:v1: PENDING",
        "kernel 2 r:5000/app:v1: ERROR on gpu-a: no-space: the disk is full",
    ]


def test_a_pull_is_told_every_few_seconds_and_only_when_it_moved() -> None:
    clock = Clock()
    log = SessionLog(clock)
    log.update(session(kernel("PULLING")))
    clock.now = PROGRESS_SECONDS
    assert log.update(session(kernel("PULLING"))) == [
        "r:5000/app:v1 on gpu-a: 50 %, 50.0 MiB of 100 MiB, 10.0 MiB/s, 0:05 left, downloading"
    ]
    assert log.update(session(kernel("PULLING", pull=pull(60)))) == []
    clock.now = 2 * PROGRESS_SECONDS
    assert log.update(session(kernel("PULLING"))) == []


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (session(kernel("RUNNING")), "session s1 running on gpu-a"),
        (
            session(kernel("RUNNING", statusInfo="agent-lost", statusData={"agentId": "gpu-a"})),
            "session s1 running on gpu-a: agent gpu-a is not heard of",
        ),
        (
            session(
                kernel("TERMINATED", exitCode=0, statusInfo="container-ended"),
                kernel("TERMINATED", "k2", exitCode=137, statusInfo="session-ended"),
            ),
            "session s1 ended with exit code 0: its container ended",
        ),
        (
            session(kernel("CANCELLED", statusInfo="ended-by-user")),
            "session s1 is CANCELLED: ended on request",
        ),
    ],
)
def test_the_last_sentence_says_how_it_stands(made: Session, told: str) -> None:
    assert session_summary.sentence(made) == told


def test_a_failure_is_told_with_its_raw_text_and_what_to_do() -> None:
    failed = kernel("ERROR", statusInfo="failed", failure=failure("not-found", "no such tag"))
    told = session_summary.failures(session(failed, kernel("ERROR", "k2")))
    assert told == [
        "r:5000/app:v1: not-found: no such tag",
        "  ENOSPC",
        "  what to do: check the image's name and tag, and that it was pushed",
    ]


def held_back(done: int | None) -> Kernel:
    progress = done and {"current": done * MIB, "total": 100 * MIB, "unit": "bytes"}
    data = {
        "kind": "preload",
        "taskId": "t1",
        "agentId": "gpu-a",
        "attemptId": "a1",
        "progress": progress or None,
        "etaSeconds": 40.0 if done else None,
    }
    return kernel(statusInfo="pending-image-preparation", statusData=data)


def test_a_preparation_that_holds_it_back_is_a_bar_once_its_bytes_are_known() -> None:
    assert drawn(session(held_back(None)))[1] == (
        "app:v1  PENDING: waits for image preparation: preload t1 on gpu-a"
    )
    row = drawn(session(held_back(25)), width=140)[1]
    for piece in (" 25 %", "25.0 MiB of 100 MiB", "0:40 left"):
        assert piece in row
    assert row.endswith("waits for preload t1 on gpu-a")


def test_the_figures_of_a_preparation_are_told_every_few_seconds_alone() -> None:
    clock = Clock()
    log = SessionLog(clock)
    assert log.update(session(held_back(None)))[1] == (
        "r:5000/app:v1: PENDING: waits for image preparation: preload t1 on gpu-a"
    )
    assert log.update(session(held_back(25))) == []
    clock.now = PROGRESS_SECONDS
    assert log.update(session(held_back(50))) == [
        "r:5000/app:v1: preload t1 on gpu-a: 50.0 MiB of 100 MiB, 0:40 left"
    ]
