"""The catalogue of images from the command line: what is known, for whom, and kept."""

from typing import Any

from rig.odd_manager import Odd, OddManager
from rig.task_answers import history, task

from .conftest import Program

LAST_PAGE = {"hasNextPage": False, "endCursor": None}
KNOWN = {
    "reference": "r.lan/a:v1",
    "rootDigest": "sha256:" + "a" * 64,
    "size": 2**20,
    "status": "known",
    "registry": "r.lan",
    "platforms": [],
    "labels": {},
}
UNKNOWN = {
    "failureClass": "not-found",
    "failureMessage": "r.lan has no b:v1",
    "failureDetail": {},
}
FOUND = {
    "registry": "r.lan",
    "repositoriesFrom": "registry",
    "repositories": 2,
    "tags": 10,
    "new": 3,
    "moved": 1,
    "missing": 0,
    "unchanged": 6,
    "notImages": 0,
    "failed": 3,
    "failures": [{"reference": "r.lan/c:v1", "class": "not-an-image", "message": "it is a chart"}],
}
RESCAN = task(
    status="partially_succeeded",
    name="rescan",
    progress={"current": 10, "total": 10, "unit": "images"},
    detail={"registries": [FOUND]},
)


def answer_for(registered: str) -> Any:
    return lambda asked: {"answer": KNOWN if asked["reference"] == registered else UNKNOWN}


def test_an_image_is_registered_and_forgotten(program: Program, manager: OddManager) -> None:
    manager.answers["RegisterImage"] = {"answer": KNOWN}
    manager.answers["ForgetImage"] = {"answer": {**KNOWN, "status": "forgotten"}}
    digest = KNOWN["rootDigest"]
    assert (
        program.run("image", "register", "r.lan/a:v1").out == f"r.lan/a:v1 is known, as {digest}\n"
    )
    assert program.run("image", "register", "r.lan/a:v1", "--json").document == KNOWN
    assert program.run("image", "forget", "r.lan/a:v1").out == "r.lan/a:v1 is forgotten\n"


def test_one_image_that_cannot_be_registered_keeps_no_other_from_it(
    program: Program, manager: OddManager
) -> None:
    manager.answers["RegisterImage"] = answer_for("r.lan/a:v1")
    ended = program.run("image", "register", "r.lan/b:v1", "r.lan/a:v1", "--json")
    assert ended.code == 3
    assert [done["reference"] for done in ended.document["done"]] == ["r.lan/a:v1"]
    assert [error["class"] for error in ended.document["errors"]] == ["not-found"]
    assert manager.operations() == ["RegisterImage"] * 2


def test_several_are_an_array(program: Program, manager: OddManager) -> None:
    manager.answers["ProtectImage"] = lambda asked: {"answer": {**asked, "protected": True}}
    manager.answers["UnprotectImage"] = lambda asked: {"answer": {**asked, "protected": False}}
    assert program.run("image", "protect", "r.lan/a", "r.lan/b", "--json").document == [
        {"reference": "r.lan/a", "protected": True},
        {"reference": "r.lan/b", "protected": True},
    ]
    assert program.run("image", "unprotect", "r.lan/a").out == "r.lan/a may be unloaded\n"


def test_a_rescan_tells_what_it_found_and_what_it_could_not_read(
    program: Program, manager: OddManager
) -> None:
    end = {
        "task_id": "task-1",
        "current_progress": 10,
        "total_progress": 10,
        "message": "",
        "items": [],
    }
    manager.answers |= {
        "RescanImages": {"answer": {"taskId": "task-1"}},
        "Task": {"answer": history(RESCAN)},
    }
    manager.streams = [[("1-1", "bgtask_partial_success", end)]]
    ended = program.run("image", "rescan", "r.lan", "--wait")
    assert ended.code == 3
    assert manager.requests[0].body["variables"] == {"registry": "r.lan", "wait": True}
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert "r.lan 2 10 3 1 0 6 3" in lines
    assert "and 2 more" in lines
    assert "r.lan/c:v1: not-an-image: it is a chart" in lines
    assert lines[-1] == (
        "rescan task-1 partially succeeded: 3 new, 1 moved, 0 missing, 6 unchanged, 3 failed"
    )
    shown = program.run("task", "show", "task-1").out
    assert "r.lan/c:v1: not-an-image: it is a chart" in shown


def test_a_rescan_may_be_left_alone(program: Program, manager: OddManager) -> None:
    manager.answers |= {
        "RescanImages": {"answer": {"taskId": "task-1"}},
        "Task": {"answer": history(RESCAN)},
    }
    ended = program.run("image", "rescan", "--detach")
    assert (ended.code, ended.out) == (0, "task-1\n")
    assert manager.requests[0].body["variables"] == {"registry": None, "wait": False}


def test_of_several_only_some_of_which_are_done_the_code_is_3(
    program: Program, manager: OddManager
) -> None:
    refused = {"failureClass": "unknown-id", "failureMessage": "no", "failureDetail": {}}
    manager.answers["ProtectImage"] = lambda asked: {
        "answer": refused if "b" in asked["reference"] else asked
    }
    ended = program.run("image", "protect", "a", "b", "--json")
    assert ended.code == 3
    assert [each["reference"] for each in ended.document["done"]] == ["a"]
    assert [each["of"] for each in ended.document["errors"]] == ["b"]


def test_the_id_of_what_was_started_is_told_though_the_manager_is_lost(
    program: Program, manager: OddManager
) -> None:
    manager.answers |= {"RescanImages": {"answer": {"taskId": "task-1"}}, "Task": Odd.CUT}
    ended = program.run("image", "rescan", "--detach", "--json")
    assert (ended.code, ended.document["error"]["detail"]["taskId"]) == (5, "task-1")
    assert "wharfinger task watch task-1" in ended.err
    told = program.run("image", "rescan", "--detach")
    assert (told.code, told.out) == (0, "task-1\n")


def test_a_refused_rescan_names_the_downloads_and_the_way_to_queue_it(
    program: Program, manager: OddManager
) -> None:
    manager.answers["RescanImages"] = {
        "answer": {
            "failureClass": "rescan-blocked",
            "failureMessage": "Images are being downloaded",
            "failureDetail": {"taskIds": ["t1", "t2"]},
        }
    }
    ended = program.run("image", "rescan", "--json")
    assert ended.code == 1
    assert ended.document["error"]["detail"] == {"taskIds": ["t1", "t2"]}
    assert "outstanding downloads: t1, t2" in ended.err
    assert "wharfinger image rescan --wait" in ended.err


def test_images_are_narrowed_and_told_with_their_marks(
    program: Program, manager: OddManager
) -> None:
    held = {"agentId": "gpu-a", "status": "present", "size": 3 * 2**20}
    gone = {**KNOWN, "status": "missing", "protected": True, "bytesOnAgents": 3 * 2**20}
    known = {**KNOWN, "protected": False, "bytesOnAgents": 0, "agents": []}
    nodes = [{**gone, "agents": [held]}, known]
    manager.answers["Images"] = {"images": {"nodes": nodes, "pageInfo": LAST_PAGE}}
    narrowed = ("torch", "--registry", "r.lan", "--missing", "--agent", "gpu-a")
    lines = program.run("image", "ls", *narrowed).out.splitlines()
    assert lines[1].split()[2:] == ["1.0", "MiB", "missing,", "protected", "3.0", "MiB", "gpu-a"]
    assert lines[2].split()[2:] == ["1.0", "MiB", "-", "-", "-"]
    variables = manager.requests[0].body["variables"]
    assert {key: variables[key] for key in ("reference", "registry", "statuses", "agentId")} == {
        "reference": "torch",
        "registry": "r.lan",
        "statuses": ["missing"],
        "agentId": "gpu-a",
    }
    assert program.run("image", "ls", "--json").document == nodes


def test_a_path_is_granted_revoked_and_listed(program: Program, manager: OddManager) -> None:
    few = {"path": "r.lan/secret", "users": ["ada"], "groups": ["research"]}
    manager.answers |= {
        "GrantImages": {"answer": few},
        "RevokeImages": {"answer": {"path": "r.lan/secret", "users": [], "groups": []}},
        "Grants": {"imageGrants": [few]},
    }
    granted = program.run(
        "registry", "grant", "r.lan/secret", "--user", "ada", "--group", "research"
    )
    assert granted.out == "r.lan/secret is for user ada, group research alone\n"
    assert manager.requests[0].body["variables"] == few
    assert program.run("registry", "grant", "r.lan/secret").code == 2
    revoked = program.run("registry", "revoke", "r.lan/secret")
    assert revoked.out == "r.lan/secret is no longer limited\n"
    assert program.run("registry", "grants").out.splitlines()[1].split() == [
        *("r.lan/secret", "ada", "research")
    ]
    assert program.run("registry", "grants", "--json").document == [few]


def test_users_are_put_into_groups(program: Program, manager: OddManager) -> None:
    manager.answers["ChangeUserGroups"] = {"answer": {"name": "ada", "groups": ["research"]}}
    ended = program.run("user", "group", "ada", "--add", "research", "--remove", "staff")
    assert ended.out == "ada now: groups research\n"
    assert manager.requests[0].body["variables"] == {
        "name": "ada",
        "add": ["research"],
        "remove": ["staff"],
    }
    assert program.run("user", "group", "ada").code == 2


def test_deeds_are_told_in_few_words(program: Program, manager: OddManager) -> None:
    entry = {
        "id": "7",
        "at": "2026-01-02T03:04:05+00:00",
        "actor": "root",
        "action": "image.unload",
        "target": "r.lan/a:v1",
        "detail": {"agents": ["a", "b", "c", "d"], "forced": True, "nothing": None},
    }
    manager.answers["Audit"] = {"auditEntries": {"nodes": [entry], "pageInfo": LAST_PAGE}}
    asked = ("--actor", "root", "--action", "image", "--target", "r.lan", "--limit", "9")
    told = program.run("audit", "ls", *asked).out.splitlines()[1]
    assert told.endswith("root  image.unload  r.lan/a:v1  agents a, b, c and 1 more; forced")
    assert manager.requests[0].body["variables"] == {
        "first": 9,
        "after": None,
        "actor": "root",
        "action": "image",
        "target": "r.lan",
    }
    assert program.run("audit", "ls", "--json").document == [entry]
