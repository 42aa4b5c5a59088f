"""Preload through the public interfaces, on real engines."""

import signal
from pathlib import Path
from typing import Any

from rig.cluster import Engines
from rig.engines import DockerEngine
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import push_sample
from rig.server import Server
from rig.watching import watch

SLOW = 400_000
"""Bytes per second of a throttled blob."""


def held(engine: DockerEngine, reference: str) -> list[str]:
    """The digests an engine shows for a reference; empty when it does not hold it."""
    status, image = engine.api("GET", f"/images/{reference}/json")
    return [] if status == 404 else list(image["RepoDigests"])


def by_agent(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["agentId"]: item for item in task["items"]}


def test_a_preload_puts_the_root_digest_on_every_host_and_again_skips(
    server: Server, engines: Engines, registry: Registry
) -> None:
    sample = push_sample(registry.host, "accept/twice")
    reference = sample.at(registry.host)

    first = server.cli("image", "preload", reference, "--all-agents", "--json")

    assert first.code == 0, first
    assert first.json["status"] == "succeeded"
    for item in first.json["items"]:
        assert item["status"] == "done"
        assert item["rootDigest"] == sample.root_digest
        assert item["bytesDone"] == item["bytesTotal"] == sample.size
    for engine in engines:
        assert held(engine, reference) == [sample.pinned(registry.host)]

    again = server.cli("image", "preload", reference, "--agents", "sgroup:left,right-1", "--json")

    assert again.code == 0, again
    assert [item["status"] for item in again.json["items"]] == ["skipped", "skipped"]


def test_a_tag_that_moves_meanwhile_does_not_split_the_fleet(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "accept/moving", layers=1, size=1_500_000)
    reference = sample.at(proxy.host)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    started = server.cli("image", "preload", reference, "--all-agents", "--detach", "--json")
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=1)

    moved = push_sample(registry.host, "accept/moving", layers=1)
    ended = server.wait_task(started.json["id"])

    assert ended.code == 0, ended
    assert moved.root_digest != sample.root_digest
    for engine in engines:
        assert held(engine, reference) == [sample.pinned(proxy.host)]


def test_a_dead_engine_makes_it_partial_and_the_stream_says_which(
    server: Server, engines: Engines, registry: Registry
) -> None:
    sample = push_sample(registry.host, "accept/partial")
    reference = sample.at(registry.host)
    engines[1].kill()
    started = server.cli("image", "preload", reference, "--all-agents", "--detach", "--json")

    events = list(watch(server, started.json["id"]))

    assert {event.kind for event in events[:-1]} == {"bgtask_updated"}
    assert events[-1].kind == "bgtask_partial_success"
    items = by_agent(events[-1].data)
    assert items["left-1"]["status"] == "done"
    assert items["right-1"]["status"] == "failed"
    assert items["right-1"]["failure"]["class"] == "engine-error"
    assert items["right-1"]["attempts"] == 4
    shown = server.cli("task", "watch", started.json["id"], "--json")
    assert shown.code == 3
    assert shown.json["status"] == "partially_succeeded"
    assert held(engines[0], reference) == [sample.pinned(registry.host)]


def test_of_two_preloads_at_once_the_second_waits_and_finds_the_image_there(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "accept/shared", layers=1, size=1_500_000)
    reference = sample.at(proxy.host)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    first = server.cli("image", "preload", reference, "--agents", "left-1", "--detach", "--json")
    blob = proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=1)
    second = server.cli("image", "preload", reference, "--agents", "left-1", "--detach", "--json")
    assert not blob.ended

    ends = [server.wait_task(task.json["id"]) for task in (first, second)]

    assert [end.json["items"][0]["status"] for end in ends] == ["done", "skipped"]
    assert all(end.json["items"][0]["bytesDone"] == sample.size for end in ends)
    asked = [exchange.path for exchange in proxy.log if exchange.method == "GET"]
    for digest in sample.blobs:
        assert sum(path.endswith(digest) for path in asked) == 1
    assert held(engines[0], reference) == [sample.pinned(proxy.host)]


def test_a_cancelled_preload_leaves_nothing_and_moves_no_byte(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "accept/cancelled", layers=1, size=4_000_000)
    reference = sample.at(proxy.host)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    started = server.cli("image", "preload", reference, "--all-agents", "--detach", "--json")
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=200_000)

    cancelled = server.cli("task", "cancel", started.json["id"], "--json")
    assert cancelled.code == 0, cancelled
    ended = server.wait_task(started.json["id"])

    assert ended.code == 1
    assert ended.json["status"] == "cancelled"
    assert ended.json["cancelRequested"]
    assert {item["status"] for item in ended.json["items"]} == {"cancelled"}
    flowed = proxy.bytes_sent
    assert all(exchange.ended for exchange in proxy.log)
    for engine in engines:
        assert held(engine, reference) == []
    assert proxy.bytes_sent == flowed


def test_an_interrupted_command_leaves_its_task_running(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "accept/interrupted", layers=1, size=1_500_000)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    command = ("image", "preload", sample.at(proxy.host), "--agents", "left-1")
    with server.running(*command) as preload:
        proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=1)
        preload.send_signal(signal.SIGINT)
        out, err = preload.communicate(timeout=20)

    assert preload.returncode == 130
    task_id = server.cli("task", "ls", "--json").json[0]["id"]
    assert task_id in out + err
    ended = server.wait_task(task_id)
    assert ended.json["status"] == "succeeded", ended


def test_progress_counts_the_manifests_bytes_and_never_falls(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "accept/progress", layers=2, size=1_000_000)
    # seven seconds: three reports even if each were two seconds old
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=150_000))
    started = server.cli(
        "image", "preload", sample.at(proxy.host), "--agents", "left-1", "--detach", "--json"
    )

    events = list(watch(server, started.json["id"]))

    counts = [event.data["current_progress"] for event in events]
    assert counts == sorted(counts)
    assert {event.data["total_progress"] for event in events} == {sample.size}
    assert sum(0 < count < sample.size for count in counts) >= 3
    assert counts[-1] == sample.size
    phases = {item["phase"] for event in events for item in event.data["items"]}
    assert "downloading" in phases


def test_a_reference_that_cannot_be_resolved_begins_nothing(
    server: Server, registry: Registry
) -> None:
    there = push_sample(registry.host, "accept/there").at(registry.host)
    gone = f"{registry.host}/accept/nosuch:v1"

    before = server.cli("task", "ls", "--json").json

    refused = server.cli("image", "preload", there, gone, "--all-agents", "--json")

    assert refused.code == 1
    assert refused.json["error"]["class"] == "not-found"
    assert gone in refused.json["error"]["message"]
    assert server.cli("task", "ls", "--json").json == before


def test_refusals_name_what_is_known(server: Server, registry: Registry) -> None:
    there = push_sample(registry.host, "accept/known").at(registry.host)

    unknown = server.cli("image", "preload", there, "--agents", "sgroup:middle", "--json")
    assert (unknown.code, unknown.json["error"]["class"]) == (1, "unknown-selector")
    assert "sgroup:left" in unknown.json["error"]["message"]

    foreign = server.cli("image", "preload", "example.invalid/a:v1", "--all-agents", "--json")
    assert (foreign.code, foreign.json["error"]["class"]) == (1, "unknown-registry")
    assert registry.host in foreign.json["error"]["message"]

    odd = server.cli("image", "preload", "Upper/Case", "--all-agents", "--json")
    assert odd.json["error"]["class"] == "invalid-reference"


def test_a_foreign_architecture_fails_where_it_cannot_run_before_any_pull(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "accept/arm", architecture="arm64")

    ended = server.cli("image", "preload", sample.at(proxy.host), "--all-agents", "--json")

    assert ended.code == 1
    for item in ended.json["items"]:
        assert item["failure"]["class"] == "wrong-platform"
        assert "linux/arm64" in item["failure"]["message"]
        assert item["attempts"] == 0
    assert not [exchange for exchange in proxy.log if sample.blobs[1] in exchange.path]


def test_a_user_without_rights_is_told_what_is_missing(
    server: Server, registry: Registry, tmp_path: Path
) -> None:
    reference = push_sample(registry.host, "accept/denied").at(registry.host)
    assert server.cli("user", "add", "alice").code == 0
    made = server.cli("token", "create", "alice", "--label", "laptop", "--json")
    alice = made.json["token"]
    command = ("image", "preload", reference, "--all-agents", "--json")
    before = server.cli("task", "ls", "--json").json

    plain = server.cli(*command, token=alice)
    assert (plain.code, plain.json["error"]["class"]) == (4, "forbidden")
    assert "superadmin" in plain.json["error"]["message"]

    wrong = server.cli(*command, token="no-such-token")
    assert (wrong.code, wrong.json["error"]["class"]) == (4, "forbidden")

    none = Server(tmp_path / "elsewhere", []).cli("--url", server.url, *command)
    assert (none.code, none.json["error"]["class"]) == (4, "forbidden")
    assert "token" in none.json["error"]["message"]
    assert server.cli("task", "ls", "--json").json == before
