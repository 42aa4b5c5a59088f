"""Sessions from the command line: created, followed, listed, read and ended."""

import threading
from typing import Any

import pytest
from rig.odd_manager import Odd, OddManager, Step
from rig.session_answers import kernel, session, transition
from rig.task_answers import failure

from wharfinger.client.shapes import Kernel, Session

from .conftest import Program

CREATE = ("session", "create", "r:5000/app:v1")
LAST_PAGE = {"hasNextPage": False, "endCursor": None}

QUEUED = session(kernel(statusInfo="resolving-image"))
RUNS = session(kernel("RUNNING"))
ENDED_WELL = session(kernel("TERMINATED", exitCode=0, statusInfo="container-ended"))
ENDED_ILL = session(kernel("TERMINATED", exitCode=3, statusInfo="container-ended"))
FAILED = session(
    kernel("ERROR", statusInfo="failed", failure=failure("not-found", "there is no such tag"))
)


def whole(event_id: str, kind: str, made: Session) -> Step:
    return (event_id, kind, made)


def moved(event_id: str, made: Kernel, source: str | None = None) -> Step:
    bare = {key: value for key, value in made.items() if key not in {"transitions", "pull"}}
    data: dict[str, Any] = {
        "sessionId": "s1",
        "kernelId": made["id"],
        "status": made["status"],
        "statusInfo": made["statusInfo"],
        "statusData": made["statusData"],
        "transition": source and transition(source, made["status"]),
        "pull": made["pull"],
        "kernel": bare,
    }
    return (event_id, "kernel_updated", data)


COLD = [
    whole("1-1", "session_updated", QUEUED),
    moved("1-2", kernel("SCHEDULED"), "PENDING"),
    moved("1-3", kernel("PREPARING"), "SCHEDULED"),
    moved("1-4", kernel("PULLING"), "PREPARING"),
    moved("1-5", kernel("PREPARED"), "PULLING"),
    moved("1-6", kernel("CREATING"), "PREPARED"),
    moved("1-7", kernel("RUNNING"), "CREATING"),
]


def begun(manager: OddManager, end: Session) -> None:
    """The manager creates a session, and shows how it stands at last."""
    manager.answers |= {
        "CreateSession": {"answer": QUEUED},
        "Session": {"answer": end},
        "TerminateSession": {"answer": end},
    }


def test_what_is_asked_is_what_was_written(program: Program, manager: OddManager) -> None:
    begun(manager, QUEUED)
    program.environ |= {"OURS": "here"}
    ended = program.run(
        *("session", "create", "r:5000/app:v1", "--kernels", "2", "--kernel", "r:5000/db"),
        *("--name", "train", "--cpu", "0.5", "--mem", "4g", "--gpu", "1", "--sgroup", "left"),
        *("--env", "A=1=2", "--env", "OURS", "--json", "--", "sh", "-c", "exit 3", "--json"),
    )
    assert (ended.code, ended.document) == (0, QUEUED)
    variables = manager.requests[0].body["variables"]
    assert (variables["name"], variables["scalingGroup"]) == ("train", "left")
    references = [each.pop("reference") for each in variables["kernels"]]
    assert references == ["r:5000/app:v1", "r:5000/app:v1", "r:5000/db:latest"]
    assert variables["kernels"] == 3 * [
        {
            "cpu": 0.5,
            "mem": 2**32,
            "gpu": 1,
            "command": ["sh", "-c", "exit 3", "--json"],
            "environment": [{"name": "A", "value": "1=2"}, {"name": "OURS", "value": "here"}],
        }
    ]


def test_without_waiting_the_id_alone_is_on_standard_output(
    program: Program, manager: OddManager
) -> None:
    begun(manager, QUEUED)
    ended = program.run(*CREATE)
    assert (ended.code, ended.out) == (0, "s1\n")
    assert "wharfinger session watch s1" in ended.err
    assert manager.watches() == []


@pytest.mark.parametrize(
    "wrong", [("--cpu", "0"), ("--mem", "4x"), ("--env", "NOT_SET_HERE"), ("--kernels", "0")]
)
def test_what_is_not_written_right_is_2_and_asks_nobody(
    program: Program, manager: OddManager, wrong: tuple[str, str]
) -> None:
    ended = program.run(*CREATE, *wrong, "--json")
    assert ended.code == 2
    assert ended.document["error"]["class"] == "invalid-request"
    assert manager.requests == []


def test_waiting_tells_every_state_until_it_runs(program: Program, manager: OddManager) -> None:
    begun(manager, RUNS)
    manager.streams = [[*COLD, Odd.HOLD]]
    ended = program.run(*CREATE, "--wait")
    assert ended.code == 0
    told = [
        f"r:5000/app:v1: {state} on gpu-a"
        for state in ("SCHEDULED", "PREPARING", "PULLING", "PREPARED", "CREATING", "RUNNING")
    ]
    assert ended.out.splitlines() == [
        "session s1: PENDING",
        "r:5000/app:v1: PENDING: its registry is being asked for the image",
        *told,
        "session s1 running on gpu-a",
    ]
    assert ended.err == ""


@pytest.mark.parametrize(("end", "code"), [(ENDED_WELL, 0), (ENDED_ILL, 1), (FAILED, 1)])
@pytest.mark.parametrize("ran", [True, False])
def test_the_document_is_the_session_and_the_code_how_it_ended(
    program: Program, manager: OddManager, end: Session, code: int, ran: bool
) -> None:
    begun(manager, end)
    start = COLD if ran else COLD[:2]
    manager.streams = [[*start, whole("1-9", "session_ended", end)]]
    ended = program.run(*CREATE, "--wait", "--json")
    assert (ended.code, ended.document) == (code, end)


def test_a_failure_is_told_with_its_text_and_what_to_do(
    program: Program, manager: OddManager
) -> None:
    begun(manager, FAILED)
    manager.streams = [[whole("1-1", "session_ended", FAILED)]]
    ended = program.run(*CREATE, "--wait")
    assert ended.code == 1
    assert ended.out.splitlines()[-4:] == [
        "r:5000/app:v1: not-found: there is no such tag",
        "  ENOSPC",
        "  what to do: check the image's name and tag, and that it was pushed",
        "session s1 is ERROR: it failed",
    ]


def test_one_that_begins_to_end_after_the_look_is_followed_to_its_end(
    program: Program, manager: OddManager
) -> None:
    begun(manager, ENDED_WELL)
    stands = [ENDED_WELL, session(kernel("TERMINATING"))]
    manager.answers["Session"] = lambda _: {"answer": stands.pop()}
    manager.streams = [[*COLD, Odd.HOLD], [whole("1-8", "session_ended", ENDED_WELL)]]
    ended = program.run(*CREATE, "--wait", "--json")
    assert (ended.code, ended.document["status"]) == (0, "TERMINATED")


def test_an_interrupted_creation_says_how_to_see_what_came_of_it(
    program: Program, manager: OddManager
) -> None:
    asked = threading.Event()

    def held(_: dict[str, Any]) -> Odd:
        asked.set()
        manager.stopped.wait()
        return Odd.CUT

    manager.answers["CreateSession"] = held
    process = program.start(*CREATE)
    assert asked.wait(30)
    ended = program.interrupt(process)
    assert (ended.code, ended.out) == (130, "")
    assert "wharfinger session ls" in ended.err


def test_a_manager_that_restarts_is_waited_for(program: Program, manager: OddManager) -> None:
    begun(manager, RUNS)
    manager.streams = [
        [*COLD[:4], Odd.CUT],
        [whole("2-1", "session_updated", RUNS), Odd.HOLD],
    ]
    ended = program.run(*CREATE, "--wait", "--json")
    assert (ended.code, ended.document) == (0, RUNS)
    assert ended.err.count("trying again") == 1
    assert manager.watches()[1].headers["Last-Event-ID"] == "1-4"


@pytest.mark.parametrize("as_json", [True, False])
def test_ctrl_c_leaves_the_session_and_says_how_to_go_on(
    program: Program, manager: OddManager, as_json: bool
) -> None:
    begun(manager, RUNS)
    manager.streams = [[*COLD[:4], Odd.HOLD]]
    process = program.start(*CREATE, "--wait", *(["--json"] if as_json else []))
    assert manager.watched.wait(30)
    ended = program.interrupt(process)
    assert ended.code == 130
    assert "the session goes on; to follow it: wharfinger session watch s1" in ended.err
    assert "Traceback" not in ended.err
    assert manager.operations() == ["CreateSession"]
    if as_json:
        assert ended.document["id"] == "s1"


def test_a_refusal_is_one_error(program: Program, manager: OddManager) -> None:
    refused = {
        "failureClass": "unknown-registry",
        "failureMessage": "The registry r:5000 is not known",
        "failureDetail": {"known": []},
    }
    manager.answers["CreateSession"] = {"answer": refused}
    ended = program.run(*CREATE, "--wait", "--json")
    assert ended.code == 1
    assert ended.document["error"]["class"] == "unknown-registry"
    assert "session ls" not in ended.err


def test_watching_goes_on_to_the_end(program: Program, manager: OddManager) -> None:
    begun(manager, ENDED_ILL)
    manager.answers["Session"] = {"answer": ENDED_ILL}
    manager.streams = [[*COLD, whole("1-9", "session_ended", ENDED_ILL)]]
    ended = program.run("session", "watch", "s1")
    assert ended.code == 1
    assert ended.out.endswith("session s1 ended with exit code 3: its container ended\n")


def test_those_that_have_not_ended_are_listed_with_the_reason(
    program: Program, manager: OddManager
) -> None:
    waits = session(
        kernel(statusInfo="in-line", statusData={"sessionId": "s0"}),
        kernel("PENDING", "k2"),
        name="train",
    )
    manager.answers["Sessions"] = {"sessions": {"nodes": [waits], "pageInfo": LAST_PAGE}}
    told = program.run("session", "ls").out
    row = "s1  train  ada    PENDING  session s0 comes first  r:5000/app:v1 x2  -      "
    assert told.splitlines()[1].startswith(row)
    asked = manager.requests[0].body["variables"]
    assert "PENDING" in asked["status"]
    assert "TERMINATED" not in asked["status"]
    assert program.run("session", "ls", "--all-states", "--json").document == [waits]
    assert manager.requests[-1].body["variables"]["status"] is None
    assert program.run("session", "ls", "--status", "ERROR", "--all-states").code == 2


def test_a_session_is_shown_with_its_kernels_and_their_logs(
    program: Program, manager: OddManager
) -> None:
    log = [transition(None, "PENDING"), transition("PENDING", "SCHEDULED")]
    shown = session(kernel("PULLING", transitions=log, command=["sleep", "9"]))
    manager.answers["Session"] = {"answer": shown}
    told = program.run("session", "show", "s1").out
    assert told.startswith("session s1 is PULLING\n")
    for piece in ("1 cpu, 1.0 GiB mem", "50.0 MiB of 100 MiB", "sleep 9", "SCHEDULED  manager m1"):
        assert piece in told
    assert program.run("session", "show", "s1", "--json").document == shown


def test_a_log_is_printed_byte_for_byte(program: Program, manager: OddManager) -> None:
    manager.logs = [[b"one\r\n", b"\x1b[31mtwo"], [b"one"]]
    manager.log_headers = {"X-Log-Truncated": "true"}
    ended = program.run("session", "logs", "s1", "--tail", "9")
    assert (ended.code, ended.out) == (0, "one\n\x1b[31mtwo")
    assert "the beginning of the log is not kept" in ended.err
    assert manager.requests[0].path == "/sessions/s1/logs?tail=9"
    document = program.run("session", "logs", "s1", "--json").document
    assert document == {"text": "one", "truncated": True}


def test_a_kernel_of_a_log_may_be_numbered(program: Program, manager: OddManager) -> None:
    manager.answers["Session"] = {"answer": session(kernel(), kernel("PENDING", "k2"))}
    manager.logs = [[b"two"], [b"two"]]
    assert program.run("session", "logs", "s1", "--kernel", "2", "-f").out == "two"
    assert manager.watches()[0].path == "/sessions/s1/logs?kernel=k2&follow=true"
    assert program.run("session", "logs", "s1", "--kernel", "abcdef").out == "two"
    assert program.run("session", "logs", "s1", "--kernel", "3").code == 1


def test_a_log_that_breaks_off_is_5_and_says_so(program: Program, manager: OddManager) -> None:
    manager.logs = [[b"half", Odd.CUT]]
    ended = program.run("session", "logs", "s1", "--follow")
    assert (ended.code, ended.out) == (5, "half")
    assert "the log broke off; to go on: wharfinger session logs s1 --follow" in ended.err


def test_a_log_whose_reader_leaves_is_141(program: Program, manager: OddManager) -> None:
    manager.logs = [[b"x" * 65536] * 32]
    status = '; s=("${PIPESTATUS[@]}"); exit "${s[0]}"'
    ended = program.shell(f'"$@" | head -c 1{status}', "session", "logs", "s1")
    assert (ended.code, ended.err) == (141, "")


def test_several_are_terminated_and_waited_for(program: Program, manager: OddManager) -> None:
    going = session(kernel("TERMINATING"))
    manager.answers["TerminateSession"] = lambda asked: {"answer": {**going, "id": asked["id"]}}
    manager.streams = [
        [whole("1-1", "session_ended", {**ENDED_ILL, "id": name})] for name in ("s1", "s2")
    ]
    ended = program.run("session", "terminate", "s1", "s2", "s1", "--wait", "--json")
    assert ended.code == 0
    assert [(each["id"], each["status"]) for each in ended.document] == [
        ("s1", "TERMINATED"),
        ("s2", "TERMINATED"),
    ]
    told = program.run("session", "terminate", "s1")
    assert told.out == "session s1 is being terminated: wharfinger session watch s1\n"


def test_one_that_cannot_be_terminated_keeps_no_other_from_it(
    program: Program, manager: OddManager
) -> None:
    unknown = {
        "failureClass": "unknown-id",
        "failureMessage": "There is no session x",
        "failureDetail": {},
    }
    manager.answers["TerminateSession"] = lambda asked: {
        "answer": unknown if asked["id"] == "x" else ENDED_WELL
    }
    manager.answers["Sessions"] = {"sessions": {"nodes": [], "pageInfo": LAST_PAGE}}
    ended = program.run("session", "terminate", "x", "s1", "--json")
    assert ended.code == 3
    assert [each["id"] for each in ended.document["done"]] == ["s1"]
    assert [(each["of"], each["class"]) for each in ended.document["errors"]] == [
        ("x", "unknown-id")
    ]
    assert ended.err == "error: there is no session x\n"
    assert manager.operations().count("TerminateSession") == 2


def test_a_manager_lost_in_the_middle_leaves_what_was_done(
    program: Program, manager: OddManager
) -> None:
    manager.answers["TerminateSession"] = lambda asked: (
        {"answer": ENDED_WELL} if asked["id"] == "s1" else Odd.CUT
    )
    ended = program.run("session", "terminate", "s1", "s2", "s3", "--json")
    assert ended.code == 3
    assert [each["id"] for each in ended.document["done"]] == ["s1"]
    assert [each["of"] for each in ended.document["errors"]] == ["s2"]
    assert manager.operations().count("TerminateSession") == 2


@pytest.mark.parametrize(
    ("role", "hint"),
    [
        ("user", "an admin can register it, or grant it to you"),
        ("superadmin", "check that r:5000/app:v1 was pushed"),
    ],
)
def test_an_image_that_is_not_known_comes_with_what_to_do_about_it(
    program: Program, manager: OddManager, role: str, hint: str
) -> None:
    refusal = {
        "failureClass": "not-found",
        "failureMessage": "there is no image r:5000/app:v1 here",
        "failureDetail": {},
    }
    manager.answers |= {
        "CreateSession": {"answer": refusal},
        "Viewer": {"viewer": {"role": role}},
    }
    ended = program.run(*CREATE, "--wait", "--json")
    assert (ended.code, ended.document["error"]["class"]) == (1, "not-found")
    assert hint in ended.err


def test_a_session_is_meant_by_its_name(program: Program, manager: OddManager) -> None:
    named = {**RUNS, "name": "train"}
    unknown = {"failureClass": "unknown-id", "failureMessage": "no", "failureDetail": {}}
    manager.answers |= {
        "Session": lambda asked: {"answer": named if asked["id"] == "s1" else unknown},
        "Sessions": {"sessions": {"nodes": [named], "pageInfo": LAST_PAGE}},
    }
    assert program.run("session", "show", "train", "--json").document == named


@pytest.mark.parametrize("force", [True, False])
def test_cancelling_says_whether_it_is_done(
    program: Program, manager: OddManager, force: bool
) -> None:
    ends = iter([session(kernel("CANCELLED", statusInfo="ended-by-user")), RUNS])
    manager.answers["CancelSession"] = lambda _: {"answer": next(ends)}
    option = ["--force"] if force else []
    assert program.run("session", "cancel", "s1", *option).out == (
        "session s1 is CANCELLED: ended on request\n"
    )
    assert manager.requests[0].body["variables"] == {"id": "s1", "force": force}
    assert "is being cancelled" in program.run("session", "cancel", "s1", *option).out
