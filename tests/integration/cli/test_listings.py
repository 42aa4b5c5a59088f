"""What lists and single things print, for people and for programs."""

from rig.odd_manager import OddManager
from rig.task_answers import history, item, task

from .conftest import Program

LAST_PAGE = {"hasNextPage": False, "endCursor": None}
AGENT = {
    "id": "gpu-a",
    "scalingGroup": "gpu",
    "status": "LOST",
    "cordoned": True,
    "os": "linux",
    "architecture": "arm",
    "variant": "v7",
    "version": "0.1.0",
    "engine": {
        "kind": "docker",
        "version": "20.10.24",
        "store": "classic",
        "problem": "gone\x1b[2J",
    },
    "slots": {"cpu": 8, "mem": 2**34, "gpu": 1},
    "occupied": {"cpu": 0.5, "mem": 2**30, "gpu": 0},
    "disk": {"free": 2**37, "total": 2**39},
    "heardSecondsAgo": 75.2,
}
DISK = "128 GiB of 512 GiB"
USED = "cpu 0.5/8, mem 1.0 GiB/16.0 GiB, gpu 0/1"


def test_tasks_are_listed_without_their_items_unless_a_program_asks(
    program: Program, manager: OddManager
) -> None:
    whole = task(item("a", "done"), status="succeeded")
    bare = {key: value for key, value in whole.items() if key != "items"}
    manager.answers["Tasks"] = lambda variables: {
        "tasks": {"nodes": [whole if variables["withItems"] else bare], "pageInfo": LAST_PAGE}
    }
    people = program.run("task", "ls", "--status", "succeeded", "--limit", "7")
    assert people.out.splitlines()[1].split()[:3] == ["task-1", "preload", "succeeded"]
    assert manager.requests[0].body["variables"] == {
        "first": 7,
        "after": None,
        "status": ["succeeded"],
        "withItems": False,
    }
    assert program.run("task", "ls", "--json").document == [whole]


def test_an_agents_trouble_is_told_without_its_control_characters(
    program: Program, manager: OddManager
) -> None:
    manager.answers["Agents"] = {"agents": [AGENT]}
    told = program.run("agent", "ls").out
    for piece in (
        "LOST (cordoned)",
        "linux/arm/v7",
        "docker 20.10.24 classic",
        "1 min ago",
        USED,
        DISK,
    ):
        assert piece in told
    assert "gone\ufffd[2J" in told


def test_an_agent_is_shown_with_images_and_history(program: Program, manager: OddManager) -> None:
    transition = history(task())["transitions"][0]
    held = {"reference": "r/a:v1", "rootDigest": "sha256:" + "d" * 64, "imageId": "x", "size": 2048}
    shown = {**AGENT, "images": [held], "transitions": [transition]}
    manager.answers["Agent"] = {"answer": shown}
    told = program.run("agent", "show", "gpu-a").out
    assert f"used:          {USED}" in told
    assert f"disk free:     {DISK}" in told
    assert f"r/a:v1     sha256:{'d' * 64}  2.0 KiB" in told
    assert "2026-01-02 03:04:06 UTC  pending  running  manager m1  a manager took it" in told
    assert program.run("agent", "show", "gpu-a", "--json").document == shown


def test_a_new_token_alone_is_on_standard_output(program: Program, manager: OddManager) -> None:
    manager.answers["CreateJoinToken"] = {"answer": {"id": "1", "token": "whj_secret"}}
    ended = program.run("agent", "token", "rack-7")
    assert (ended.code, ended.out) == (0, "whj_secret\n")
    assert "shown once" in ended.err


def test_users_are_told_with_what_they_use_of_their_limits(
    program: Program, manager: OddManager
) -> None:
    ada = {
        "id": "u1",
        "name": "ada",
        "role": "user",
        "limits": {"sessions": 10, "cpu": None, "mem": 2**36, "gpu": 2},
        "scalingGroups": ["gpu", "render"],
        "occupied": {"sessions": 1, "cpu": 4.0, "mem": 2**30, "gpu": 0},
    }
    whole = {**ada, "groups": ["research", "staff"], "createdAt": "2026-01-02T03:04:05+00:00"}
    manager.answers |= {
        "Users": {"users": [whole]},
        "Viewer": {"viewer": ada},
        "SetUserLimits": {"answer": whole},
    }
    used = "sessions 1/10, cpu 4/no limit, mem 1.0 GiB/64.0 GiB, gpu 0/2"
    assert f"{used}  gpu, render     research, staff" in program.run("user", "ls").out
    shown = program.run("user", "show", "ada").out
    assert used in shown
    assert "groups:         research, staff" in shown
    assert program.run("user", "show", "--json").document == ada
    assert program.run("user", "show", "bob").code == 1
    limits = ("--sessions", "10", "--cpu", "none", "--mem", "64g", "--sgroup", "gpu,render")
    ended = program.run("user", "limit", "ada", *limits, "--json")
    assert (ended.code, ended.document) == (0, whole)
    assert manager.requests[-1].body["variables"] == {
        "name": "ada",
        "maxSessions": 10,
        "cpu": None,
        "mem": 2**36,
        "scalingGroups": ["gpu", "render"],
    }
    assert program.run("user", "limit", "ada").code == 2
