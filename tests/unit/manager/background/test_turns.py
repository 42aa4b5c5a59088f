"""Whose turn it is, for any queue."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.manager.background.turns import Place, Turns, sentence

WAITS = {"download": {"rescan"}, "rescan": {"download"}}


def place(task_id: str, category: str, *, running: bool = False) -> Place:
    return Place(task_id, category, category, running)


def ids(places: object) -> list[str]:
    assert isinstance(places, list)
    return [place.task_id for place in places]


@st.composite
def queues(draw: st.DrawFn) -> list[Place]:
    """Pending tasks, with the one category that may run running somewhere among them."""
    running = draw(st.sampled_from(["download", "rescan", "other"]))
    return [
        place(str(index), category, running=category == running and draw(st.booleans()))
        for index, category in enumerate(
            draw(st.lists(st.sampled_from(["download", "rescan", "other"]), max_size=8))
        )
    ]


def test_a_task_waits_for_what_runs_and_for_what_was_made_before_it() -> None:
    turns = Turns(
        [
            place("d1", "download"),
            place("r1", "rescan"),
            place("d2", "download"),
            place("r2", "rescan", running=True),
        ],
        WAITS,
    )
    assert ids(turns.before("d1")) == ["r2"]
    assert ids(turns.before("r1")) == ["d1"]
    assert ids(turns.before("d2")) == ["r1", "r2"]
    assert ids(turns.before("r2")) == []
    assert ids(turns.before_new("rescan")) == ["d1", "d2"]


def test_what_has_no_category_or_is_not_there_waits_for_nothing() -> None:
    turns = Turns([place("d1", "download", running=True), place("o1", "other")], WAITS)
    assert ids(turns.before("o1")) == []
    assert ids(turns.before("gone")) == []
    assert ids(turns.before_new(None)) == []
    assert ids(turns.before_new("other")) == []


def test_who_waits_says_for_what_and_stays_short() -> None:
    assert sentence([]) == ""
    assert sentence([place("r1", "rescan")]) == "waits for rescan r1"
    many = [place(str(number), "preload") for number in range(5)]
    assert sentence(many) == "waits for preload 0, preload 1, preload 2 and 2 more"


@given(queues())
def test_somebody_may_always_go_on(queue: list[Place]) -> None:
    turns = Turns(queue, WAITS)
    assert not queue or any(not turns.before(place.task_id) for place in queue)


@given(queues())
def test_what_may_run_never_meets_what_it_waits_for(queue: list[Place]) -> None:
    """Whoever goes on, in whatever order: tasks are taken until no more may be."""
    while True:
        turns = Turns(queue, WAITS)
        free = [
            index
            for index, one in enumerate(queue)
            if not one.running and not turns.before(one.task_id)
        ]
        if not free:
            break
        queue = [
            replace(one, running=one.running or index == free[-1])
            for index, one in enumerate(queue)
        ]
        running = {one.category for one in queue if one.running}
        assert not {"download", "rescan"} <= running
