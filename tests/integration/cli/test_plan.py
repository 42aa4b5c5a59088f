"""A dry run tells host by host what would come of it, ends as the deed would, and does nothing."""

from typing import Any

import pytest
from rig.odd_manager import OddManager
from rig.task_answers import failure

from .conftest import Program

REFERENCE = "127.0.0.1:5000/app:v1"
GIB = 2**30


def preload(agent_id: str, action: str = "pull", **more: Any) -> dict[str, Any]:
    return {
        "agentId": agent_id,
        "reference": REFERENCE,
        "rootDigest": "sha256:1",
        "action": action,
        "failure": failure() if action == "fail" else None,
        "bytesTotal": 3 * GIB,
        "bytesMissing": 2 * GIB,
        "bytesNeeded": 5 * GIB,
        "layersKnown": True,
        "diskFree": 100 * GIB,
        "diskFreeAfter": 95 * GIB,
        "diskTotal": 200 * GIB,
        **more,
    }


def unload(agent_id: str, action: str = "remove", **more: Any) -> dict[str, Any]:
    return {
        "agentId": agent_id,
        "reference": REFERENCE,
        "action": action,
        "failure": failure("in-use", "2 containers use it") if action == "fail" else None,
        "imageId": "sha256:2",
        "going": [REFERENCE],
        "keptBy": [],
        "kernels": [],
        "containers": [],
        "queued": [],
        "waitsFor": None,
        "bytesFreed": GIB,
        **more,
    }


def test_a_preload_tells_what_it_would_move_and_what_stays_free(
    program: Program, manager: OddManager
) -> None:
    unknown: dict[str, Any] = {"bytesMissing": None, "diskFree": None, "diskFreeAfter": None}
    plans = [preload("a"), preload("b", "skip"), preload("c", "fail"), preload("d", **unknown)]
    manager.answers["PreloadPlan"] = {"answer": {"items": plans}}
    dry = ("image", "preload", REFERENCE, "--all-agents", "--dry-run")
    ended = program.run(*dry)
    assert ended.code == 3
    told = {line.split()[0]: " ".join(line.split()) for line in ended.out.splitlines()}
    assert "2.0 GiB of 3.0 GiB 5.0 GiB 100 GiB 95.0 GiB pull" in told["a"]
    assert told["b"].endswith("nothing: it is there")
    assert told["c"].endswith("fail: no-space: the disk is full")
    assert "at most 3.0 GiB of 3.0 GiB 5.0 GiB ? ? pull" in told["d"]
    assert ended.out.splitlines()[-1] == (
        "would pull 2, skip 1, fail 1; at most 5.0 GiB to download; nothing was done"
    )
    assert program.run(*dry, "--json").document == plans
    assert set(manager.operations()) == {"PreloadPlan"}


def test_an_unload_tells_what_keeps_an_image_and_who_would_miss_it(
    program: Program, manager: OddManager
) -> None:
    plans = [
        unload("a", queued=["s1"], waitsFor="t1"),
        unload("b", "untag", keptBy=["r/other:v1"]),
        unload("c", "fail", kernels=["k1"], containers=["web"]),
        unload("d", bytesFreed=None),
    ]
    manager.answers["UnloadPlan"] = {"answer": {"items": plans}}
    ended = program.run("image", "unload", REFERENCE, "--all-agents", "--dry-run")
    assert ended.code == 3
    told = {line.split()[0]: " ".join(line.split()) for line in ended.out.splitlines()}
    assert told["a"].endswith("1.0 GiB - - s1 - remove, after task t1")
    assert told["b"].endswith("r/other:v1 remove the name only")
    assert told["c"].endswith("k1 web - - fail: in-use: 2 containers use it")
    assert ended.out.splitlines()[-2:] == [
        "would remove 2, untag 1, fail 1; at least 1.0 GiB would be freed; nothing was done",
        "1 queued session would find the image on no other host",
    ]


@pytest.mark.parametrize(
    ("actions", "code"), [(["pull", "skip"], 0), (["pull", "fail"], 3), (["fail", "fail"], 1)]
)
def test_the_code_is_that_of_the_deed(
    program: Program, manager: OddManager, actions: list[str], code: int
) -> None:
    plans = [preload(f"agent-{number}", action) for number, action in enumerate(actions)]
    manager.answers["PreloadPlan"] = {"answer": {"items": plans}}
    dry = ("image", "preload", REFERENCE, "--agents", "gpu", "--dry-run", "--json")
    assert program.run(*dry).code == code
    assert manager.requests[0].body["variables"] == {
        "targetAgents": ["gpu"],
        "references": [REFERENCE],
    }
