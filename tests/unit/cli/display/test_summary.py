"""How a task ended, as a table."""

import pytest
from rig.task_answers import item, task

from wharfinger.cli.display import summary
from wharfinger.client.shapes import Item
from wharfinger.manager.images.listing import PRELOAD, UNLOAD


@pytest.mark.parametrize(
    ("name", "told"),
    [(PRELOAD, "was there already"), (UNLOAD, "was not there"), ("other", "nothing to do")],
)
def test_why_an_item_was_skipped_depends_on_what_was_asked(name: str, told: str) -> None:
    ((*_, what),) = summary.rows(task(item("a", "skipped"), name=name))
    assert what == told


@pytest.mark.parametrize(
    ("items", "adds"),
    [
        ([item("a", "done")], False),
        ([item("a", "done"), item("b", "failed")], True),
        ([item("a", "skipped")], True),
        ([item("a", "done", keptBy=["r:5000/other:v1"])], True),
    ],
)
def test_the_table_adds_to_the_bars_unless_all_was_simply_done(
    items: list[Item], adds: bool
) -> None:
    assert summary.adds_to_bars(task(*items)) is adds


def test_a_task_that_waits_says_for_what() -> None:
    waiting = task(item("a", "queued"), status="pending", message="waits for rescan t1")
    assert summary.sentence(waiting) == "preload task-1 pending: 1 queued; waits for rescan t1"
    assert summary.sentence(task(item("a"), message="0 of 1 ended")).endswith(": 1 running")
