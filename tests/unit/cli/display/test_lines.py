"""Plain lines: one per change of state, and progress now and then."""

from rig.task_answers import failure, item, task

from wharfinger.cli.display.lines import PROGRESS_SECONDS, LineLog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_change_of_state_is_one_line() -> None:
    log = LineLog(Clock())
    assert log.update(task(item("a", "queued"))) == ["preload task-1: running"]
    assert log.update(task(item("a"))) == ["a r:5000/app:v1: running"]
    assert log.update(task(item("a", bytesDone=7, phase="extracting"))) == []
    assert log.update(task(item("a", "done"))) == ["a r:5000/app:v1: done"]
    assert log.update(task(item("a", "done"))) == []


def test_a_failure_carries_its_class_and_sentence() -> None:
    log = LineLog(Clock())
    (_, line) = log.update(task(item("a", "failed")))
    assert line == "a r:5000/app:v1: failed: no-space: the disk is full"


def test_another_try_is_told_with_its_reason() -> None:
    log = LineLog(Clock())
    log.update(task(item("a")))
    waits = item("a", "queued", attempts=1, failure=failure("network", "reset"))
    assert log.update(task(waits)) == ["a r:5000/app:v1: waits to try again: network: reset"]
    again = log.update(task(item("a", attempts=2)))
    assert again == ["a r:5000/app:v1: running again (attempt 2)"]


def test_progress_is_told_at_most_every_few_seconds_and_only_when_it_changed() -> None:
    clock = Clock()
    log = LineLog(clock)
    log.update(task(item("a")))
    clock.now = PROGRESS_SECONDS
    told = log.update(task(item("a")))
    assert told == ["50 %, 50.0 MiB of 100 MiB, 10.0 MiB/s, 0:05 left; 1 running"]
    assert log.update(task(item("a", bytesDone=60 * 1024 * 1024))) == []
    clock.now = 2 * PROGRESS_SECONDS
    assert log.update(task(item("a"))) == []


def test_cancelling_is_told_once() -> None:
    log = LineLog(Clock())
    log.update(task(item("a")))
    assert log.update(task(item("a"), cancelRequested=True)) == ["cancelling"]
    assert log.update(task(item("a"), cancelRequested=True)) == []


def test_a_task_that_was_cancelled_is_not_cancelling() -> None:
    told = LineLog(Clock()).update(task(status="cancelled", cancelRequested=True))
    assert told == ["preload task-1: cancelled"]


def test_what_a_task_waits_for_is_told_once_and_no_progress_meanwhile() -> None:
    clock = Clock()
    log = LineLog(clock)
    waiting = task(item("a", "queued"), status="pending", message="waits for rescan t1")
    assert log.update(waiting) == ["preload task-1: pending", "waits for rescan t1"]
    clock.now = PROGRESS_SECONDS
    assert log.update(waiting) == []
    assert log.update(task(item("a"), message="0 of 1 ended"))[0] == "a r:5000/app:v1: running"


def test_a_task_without_items_says_of_itself_how_far_it_is() -> None:
    clock = Clock()
    log = LineLog(clock)
    done = {"current": 50, "total": 200, "unit": "images"}
    log.update(task(name="rescan", progress={**done, "total": 0}))
    clock.now = PROGRESS_SECONDS
    told = log.update(task(name="rescan", progress=done, message="r.lan: 4 of 9 repositories"))
    assert told == ["25 %, 50 of 200; r.lan: 4 of 9 repositories"]
