"""The live numbers of a task's items."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.progress import Phase
from wharfinger.domain.states import ItemStatus
from wharfinger.manager.background.port import Item
from wharfinger.manager.images.board import Board
from wharfinger.manager.images.items import ItemRow

TOTAL = 100
ROW = ItemRow(
    id="i1",
    agent_id="a-1",
    reference="h/one:v1",
    root_digest="sha256:1",
    status=ItemStatus.RUNNING,
    phase=Phase.WAITING,
    attempts=1,
    failure=None,
    bytes_done=0,
    bytes_total=TOTAL,
    kept_by=(),
    due=True,
)
OTHER = replace(ROW, id="i2", agent_id="b-1")


class Run:
    """A task's run that keeps what it is told."""

    task_id, epoch = "t1", 1
    arguments: Mapping[str, Any] = {}
    cancel_requested = False

    def __init__(self) -> None:
        self.current = self.maximum = 0
        self.message = ""
        self.items: Sequence[Item] = ()

    async def __call__(
        self,
        *,
        current: int | None = None,
        maximum: int | None = None,
        message: str | None = None,
        items: Sequence[Item] = (),
    ) -> None:
        self.current, self.maximum, self.message = current or 0, maximum or 0, message or ""
        self.items = items

    async def wait_cancel_requested(self) -> None:
        raise AssertionError


def progress(done: int, attempt_id: str = "x1") -> list[dict[str, Any]]:
    return [
        {
            "attemptId": attempt_id,
            "phase": "downloading",
            "bytesDone": done,
            "bytesTotal": TOTAL,
            "bytesPerSecond": 5.0,
            "etaSeconds": 2.0,
        }
    ]


@given(st.lists(st.tuples(st.booleans(), st.integers(-5, TOTAL + 5)), min_size=1))
async def test_bytes_never_fall_and_are_whole_only_with_the_end(
    news: list[tuple[bool, int]],
) -> None:
    board, run = Board(count_bytes=True), Run()
    board.place([ROW])
    board.expect({"x1": "i1"})
    shown = 0
    for from_row, done in news:
        if from_row:
            board.place([replace(ROW, bytes_done=min(max(done, 0), TOTAL - 1))])
        else:
            board.note(progress(done))
        await board.report(run)
        assert shown <= run.current < TOTAL
        shown = run.current
    board.place([replace(ROW, status=ItemStatus.DONE, bytes_done=TOTAL)])
    await board.report(run)
    assert (run.current, run.message) == (TOTAL, "1 of 1 ended")


async def test_only_what_changed_is_told() -> None:
    board, run = Board(count_bytes=True), Run()
    board.place([ROW, OTHER])
    await board.report(run)
    assert [item["agentId"] for item in run.items] == ["a-1", "b-1"]
    board.expect({"x1": "i1", "x2": "i2"})
    assert board.note(progress(10, "x2"))
    await board.report(run)
    assert [(item["agentId"], item["bytesDone"]) for item in run.items] == [("b-1", 10)]
    run.items = ()
    board.place([ROW, OTHER])
    await board.report(run)
    assert run.items == ()


async def test_progress_of_others_attempts_is_dropped() -> None:
    board, run = Board(count_bytes=True), Run()
    board.place([ROW])
    board.expect({"x1": "i1"})
    assert not board.note(progress(10, "x9"))
    await board.report(run)
    assert run.current == 0


async def test_an_item_that_waits_again_keeps_its_bytes_and_has_no_rate() -> None:
    board, run = Board(count_bytes=True), Run()
    board.place([ROW])
    board.expect({"x1": "i1"})
    board.note(progress(60))
    board.place([replace(ROW, status=ItemStatus.QUEUED, phase=Phase.RETRYING)])
    assert not board.note(progress(70))
    await board.report(run)
    [item] = run.items
    assert item["bytesDone"] == 60
    assert item["phase"] == "retrying"
    assert item["bytesPerSecond"] is item["etaSeconds"] is None


async def test_a_task_without_bytes_counts_what_ended() -> None:
    board, run = Board(count_bytes=False), Run()
    board.place([replace(ROW, status=ItemStatus.FAILED), OTHER])
    await board.report(run)
    assert (run.current, run.maximum, run.message) == (1, 2, "1 of 2 ended")
