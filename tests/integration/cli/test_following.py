"""A task followed to its end: by preload, unload and `task watch`."""

import pytest
from rig.odd_manager import Odd, OddManager, Step
from rig.task_answers import history, item, task

from wharfinger.client.shapes import Task

from .conftest import Program

PRELOAD = ("image", "preload", "r:5000/app:v1", "--all-agents")
ENDS = [
    ("succeeded", "bgtask_done", 0),
    ("partially_succeeded", "bgtask_partial_success", 3),
    ("failed", "bgtask_failed", 1),
    ("cancelled", "bgtask_cancelled", 1),
]


def event(event_id: str, kind: str, made: Task) -> Step:
    data = {
        "task_id": made["id"],
        "current_progress": made["progress"]["current"],
        "total_progress": made["progress"]["total"],
        "message": made["message"],
        "items": made["items"],
    }
    return (event_id, kind, data)


RUNNING = task(item("gpu-a"), item("gpu-b", "queued"))
DONE = task(item("gpu-a", "done"), item("gpu-b", "skipped"), status="succeeded")


def begun(manager: OddManager, end: Task = DONE) -> None:
    """The manager starts a task, and says on the first look that it runs, then how it ended."""
    looks = iter([RUNNING, end, end])
    manager.answers |= {
        "Preload": {"answer": {"taskId": "task-1"}},
        "Unload": {"answer": {"taskId": "task-1"}},
        "Task": lambda _: {"answer": history(next(looks))},
    }


@pytest.mark.parametrize(("status", "kind", "code"), ENDS)
def test_the_exit_code_and_the_document_are_the_tasks_end(
    program: Program, manager: OddManager, status: str, kind: str, code: int
) -> None:
    end = task(item("gpu-a", "done"), item("gpu-b", "failed"), status=status)
    begun(manager, end)
    manager.streams = [[event("1-1", "bgtask_updated", RUNNING), event("1-2", kind, end)]]
    ended = program.run(*PRELOAD, "--json")
    assert (ended.code, ended.document) == (code, history(end))
    assert manager.requests[0].headers["Authorization"] == "Bearer secret"


def test_without_a_terminal_there_are_plain_lines_and_a_table(
    program: Program, manager: OddManager
) -> None:
    end = task(item("gpu-a", "done"), item("gpu-b", "failed"), status="partially_succeeded")
    begun(manager, end)
    manager.streams = [
        [event("1-1", "bgtask_updated", RUNNING), event("1-2", "bgtask_partial_success", end)]
    ]
    ended = program.run("image", "unload", "r:5000/app:v1", "--agents", "gpu-a,gpu-b")
    lines = ended.out.splitlines()
    assert lines[:4] == [
        "preload task-1: running",
        "gpu-a r:5000/app:v1: running",
        "gpu-a r:5000/app:v1: done",
        "gpu-b r:5000/app:v1: failed: no-space: the disk is full",
    ]
    assert lines[-1] == "preload task-1 partially succeeded: 1 failed, 1 done"
    (row,) = (line for line in lines if line.startswith("gpu-b  "))
    assert row.split()[1:4] == ["r:5000/app:v1", "failed", "1"]
    assert row.endswith("no-space: the disk is full")
    assert "\x1b" not in ended.out
    assert ended.err == ""
    assert manager.requests[0].body["variables"] == {
        "references": ["r:5000/app:v1"],
        "targetAgents": ["gpu-a", "gpu-b"],
    }


@pytest.mark.parametrize("how", [[Odd.CUT], [], [b"id: 9-9\ndata: half"]])
def test_a_stream_that_ends_early_is_taken_up_where_it_ended(
    program: Program, manager: OddManager, how: list[Step]
) -> None:
    begun(manager)
    manager.streams = [
        [event("1-7", "bgtask_updated", RUNNING), *how],
        [event("2-1", "bgtask_done", DONE)],
    ]
    ended = program.run(*PRELOAD, "--json")
    assert (ended.code, ended.document) == (0, history(DONE))
    assert ended.err.count("trying again") == 1
    first, second = manager.watches()
    assert "Last-Event-ID" not in first.headers
    assert second.headers["Last-Event-ID"] == "1-7"


def test_a_manager_that_stops_right_after_the_end_changes_nothing(
    program: Program, manager: OddManager
) -> None:
    begun(manager)
    looks = iter([RUNNING])
    manager.answers["Task"] = lambda _: (
        {"answer": history(seen)} if (seen := next(looks, None)) else Odd.CUT
    )
    manager.streams = [[event("1-1", "bgtask_done", DONE)]]
    ended = program.run(*PRELOAD, "--json")
    assert ended.code == 0
    assert ended.document["status"] == "succeeded"
    assert ended.document["items"] == DONE["items"]


def test_detached_the_task_is_printed_and_not_watched(
    program: Program, manager: OddManager
) -> None:
    begun(manager)
    ended = program.run(*PRELOAD, "--detach", "--json")
    assert (ended.code, ended.document) == (0, history(RUNNING))
    assert manager.watches() == []


def test_a_task_that_has_ended_is_shown_at_once(program: Program, manager: OddManager) -> None:
    manager.answers["Task"] = {"answer": history(DONE)}
    manager.streams = [[event("1-9", "bgtask_done", DONE)]]
    ended = program.run("task", "watch", "task-1")
    assert ended.code == 0
    assert ended.out.endswith("preload task-1 succeeded: 1 done, 1 skipped\n")


@pytest.mark.parametrize("as_json", [True, False])
def test_ctrl_c_leaves_the_task_running_and_says_how_to_go_on(
    program: Program, manager: OddManager, as_json: bool
) -> None:
    begun(manager)
    manager.streams = [[event("1-1", "bgtask_updated", RUNNING), Odd.HOLD]]
    process = program.start(*PRELOAD, *(["--json"] if as_json else []))
    assert manager.watched.wait(30)
    ended = program.interrupt(process)
    assert ended.code == 130
    assert "wharfinger task watch task-1" in ended.err
    assert "Traceback" not in ended.err
    assert "CancelTask" not in manager.operations()
    if as_json:
        assert ended.document["status"] == "running"


def test_an_unknown_task_is_one_error(program: Program, manager: OddManager) -> None:
    failed = {
        "failureClass": "unknown-id",
        "failureMessage": "There is no task x",
        "failureDetail": {"id": "x"},
    }
    manager.answers["Task"] = {"answer": failed}
    manager.answers["Tasks"] = {
        "tasks": {"nodes": [], "pageInfo": {"hasNextPage": False, "endCursor": None}}
    }
    ended = program.run("task", "watch", "x", "--json")
    assert ended.code == 1
    assert ended.document == {
        "error": {"class": "unknown-id", "message": "There is no task x", "detail": {"id": "x"}}
    }
    assert ended.err == "error: there is no task x\n"


def test_data_that_is_no_task_ends_with_a_sentence(program: Program, manager: OddManager) -> None:
    begun(manager)
    manager.streams = [[b"event: bgtask_updated\ndata: {}\n\n", Odd.HOLD]]
    ended = program.run(*PRELOAD)
    assert ended.code == 1
    assert "is not a Wharfinger manager" in ended.err
    assert "Traceback" not in ended.err
    assert "wharfinger task watch task-1" in ended.err
