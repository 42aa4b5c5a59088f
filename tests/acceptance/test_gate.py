"""Preparations and sessions of one image, side by side on real engines."""

from collections.abc import Iterator
from typing import Any

import pytest
from rig import sessions
from rig.cluster import Engines
from rig.processes import wait_until
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import Sample, push_sample
from rig.server import Outcome, Server
from rig.sessions import SLEEP, SMALL

SLOW = 400_000
"""Bytes per second of a throttled blob."""


@pytest.fixture(autouse=True)
def _ended_sessions(server: Server) -> Iterator[None]:
    """Whatever a test leaves running is ended after it."""
    yield
    left = [session["id"] for session in server.cli("session", "ls", "--json").json]
    if left:
        server.cli("session", "terminate", *left, "--wait", "--json")


def slow(registry: Registry, proxy: FaultProxy, name: str, size: int = 8_000_000) -> Sample:
    """A sample nobody holds, behind a slow proxy."""
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    return push_sample(registry.host, f"gate/{name}", layers=1, size=size)


def preloading(server: Server, reference: str) -> str:
    """A preload of every agent that has begun on both; its task."""
    started = server.cli("image", "preload", reference, "--all-agents", "--detach", "--json")
    assert started.code == 0, started
    task_id = str(started.json["id"])

    def begun() -> bool:
        items = server.cli("task", "show", task_id, "--json").json["items"]
        return [item["phase"] for item in items] == ["downloading"] * 2

    assert wait_until(begun, 30)
    return task_id


def by_agent(told: Any) -> dict[str, dict[str, Any]]:
    return {item["agentId"]: item for item in told}


def unload(server: Server, reference: str, *more: str) -> Outcome:
    return server.cli("image", "unload", reference, "--all-agents", "--json", *more)


def test_a_session_waits_for_its_preparation_and_starts_on_the_first_host_that_is_ready(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = slow(registry, proxy, "first")
    task_id = preloading(server, sample.at(proxy.host))
    created = sessions.create(server, sample.at(proxy.host), *SMALL, *SLEEP)

    held = sessions.wait_for(
        server, created["id"], lambda seen: seen["statusInfo"] == "pending-image-preparation"
    )
    assert held["status"] == "PENDING"
    assert held["statusData"]["taskId"] == task_id
    assert held["statusData"]["agentId"] in {"left-1", "right-1"}
    with sessions.watching(server, created["id"]) as watched:
        watched.wait(lambda seen: len({pull["bytesDone"] for pull in seen.pulls}) > 2)
        assert {pull["bytesTotal"] for pull in watched.pulls} == {sample.size}
    told = server.cli("session", "show", created["id"])
    assert f"preload {task_id}" in told.out, told

    engines[1].pause()
    try:
        ran = sessions.wait_for(server, created["id"], "RUNNING")
        task = server.cli("task", "show", task_id, "--json").json
    finally:
        engines[1].resume()

    assert ran["kernels"][0]["agentId"] == "left-1"
    assert "PULLING" not in sessions.states(ran)
    assert (ran["statusInfo"], ran["statusData"]) == ("", None)
    assert task["status"] == "running"
    assert server.wait_task(task_id).code == 0


def test_an_unload_leaves_an_image_that_a_session_is_pulling(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "gate/pulled", layers=1, size=1_500_000)
    reference = sample.at(proxy.host)
    assert server.cli("image", "preload", reference, "--agents", "right-1", "--json").code == 0
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    assert server.cli("agent", "cordon", "right-1", "--json").code == 0
    try:
        session = sessions.create(server, reference, *SMALL, *SLEEP)
        sessions.wait_for(server, session["id"], "PULLING")
        planned = unload(server, reference, "--dry-run")
        ended = unload(server, reference)
    finally:
        assert server.cli("agent", "uncordon", "right-1", "--json").code == 0

    kernel_id = session["kernels"][0]["id"]
    plans = by_agent(planned.json)
    assert planned.code == 3, planned
    assert (plans["left-1"]["action"], plans["left-1"]["kernels"]) == ("fail", [kernel_id])
    assert plans["right-1"]["action"] == "remove"
    assert plans["right-1"]["bytesFreed"] >= sample.size
    assert ended.code == 3, ended
    items = by_agent(ended.json["items"])
    assert items["right-1"]["status"] == "done"
    assert items["left-1"]["failure"]["class"] == "in-use"
    assert session["name"] in items["left-1"]["failure"]["message"]
    ran = sessions.wait_for(server, session["id"], "RUNNING")
    assert ran["kernels"][0]["attempts"] == 1
    assert sessions.running(engines[0], session["id"])


def test_a_stopped_container_of_somebody_else_keeps_its_image(
    server: Server, engines: Engines, registry: Registry
) -> None:
    reference = push_sample(registry.host, "gate/foreign", layers=1).at(registry.host)
    assert server.cli("image", "preload", reference, "--all-agents", "--json").code == 0
    engines[0].create_container(reference, "somebody-elses", start=False)

    planned = by_agent(unload(server, reference, "--dry-run").json)
    ended = by_agent(unload(server, reference).json["items"])

    assert planned["left-1"]["containers"] == ["somebody-elses"]
    assert planned["left-1"]["failure"]["class"] == "in-use"
    assert ended["left-1"]["failure"]["class"] == "in-use"
    assert "somebody-elses" in ended["left-1"]["failure"]["message"]
    assert ended["right-1"]["status"] == "done"


def test_a_protected_image_stays_until_it_is_let_go(server: Server, registry: Registry) -> None:
    reference = push_sample(registry.host, "gate/protected", layers=1).at(registry.host)
    assert server.cli("image", "preload", reference, "--all-agents", "--json").code == 0
    assert server.cli("image", "protect", reference, "--json").code == 0

    refused = unload(server, reference)
    listed = server.cli("image", "ls", reference, "--json").json
    assert server.cli("image", "unprotect", reference, "--json").code == 0
    ended = unload(server, reference)

    assert refused.code == 1, refused
    assert {item["failure"]["class"] for item in refused.json["items"]} == {"protected"}
    assert [image["protected"] for image in listed] == [True]
    assert ended.code == 0, ended


def test_a_moved_and_preloaded_tag_is_what_new_sessions_get_warm(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    old = push_sample(registry.host, "gate/moved", layers=1)
    reference = old.at(proxy.host)
    assert server.cli("image", "preload", reference, "--all-agents", "--json").code == 0
    before = sessions.create(server, reference, *SMALL, *SLEEP)
    sessions.wait_for(server, before["id"], "RUNNING")
    new = push_sample(registry.host, "gate/moved", layers=1)

    unmoved = sessions.create(server, reference, *SMALL, *SLEEP)
    assert server.cli("image", "preload", reference, "--all-agents", "--json").code == 0
    moved = sessions.create(server, reference, *SMALL, *SLEEP)

    ran = [sessions.wait_for(server, each["id"], "RUNNING") for each in (before, unmoved, moved)]
    digests = [session["kernels"][0]["rootDigest"] for session in ran]
    assert digests == [old.root_digest, old.root_digest, new.root_digest]
    assert "PULLING" not in sessions.states(ran[2])
    assert sessions.running(engines[0], moved["id"]) or sessions.running(engines[1], moved["id"])


def test_a_dry_run_of_a_preload_counts_what_is_there_already(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    small = push_sample(registry.host, "gate/base", layers=0)
    large = push_sample(registry.host, "gate/more", layers=1, size=3_000_000)
    base, reference = small.at(proxy.host), large.at(proxy.host)
    assert server.cli("image", "preload", base, "--agents", "left-1", "--json").code == 0

    planned = server.cli("image", "preload", reference, "--all-agents", "--dry-run", "--json")
    done = server.cli("image", "preload", reference, "--all-agents", "--json")
    again = server.cli("image", "preload", reference, "--all-agents", "--dry-run", "--json")

    assert (planned.code, done.code, again.code) == (0, 0, 0), planned
    plans = by_agent(planned.json)
    assert {plan["rootDigest"] for plan in planned.json} == {large.root_digest}
    assert plans["right-1"]["bytesMissing"] == large.size
    assert plans["left-1"]["bytesMissing"] == large.size - small.size
    assert plans["left-1"]["bytesNeeded"] >= plans["left-1"]["bytesMissing"]
    assert 0 < plans["left-1"]["diskFreeAfter"] < plans["left-1"]["diskFree"]
    assert {plan["action"] for plan in again.json} == {"skip"}


def test_what_people_did_is_in_the_audit_log(server: Server, registry: Registry) -> None:
    reference = push_sample(registry.host, "gate/audited", layers=0).at(registry.host)
    server.cli("image", "preload", reference, "--all-agents", "--json")
    session = sessions.create(server, reference, *SMALL, *SLEEP)
    server.cli("session", "terminate", session["id"], "--json")
    server.cli("image", "protect", reference, "--json")
    server.cli("image", "unprotect", reference, "--json")

    about_it = server.cli("audit", "ls", "--target", reference, "--json").json
    about_session = server.cli("audit", "ls", "--action", "session", "--json").json

    assert [entry["action"] for entry in about_it] == [
        "image.unprotect",
        "image.protect",
        "image.preload",
    ]
    assert {entry["actor"] for entry in about_it} == {"admin"}
    assert [entry["action"] for entry in about_session if entry["target"] == session["id"]] == [
        "session.terminate",
        "session.create",
    ]
