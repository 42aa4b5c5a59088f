"""Engines that die, hang or are meddled with while Wharfinger works on them."""

from rig import processes
from rig.cluster import Engines
from rig.engines import DockerEngine
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import push_sample
from rig.server import Server

SLOW = 400_000
"""Bytes per second of a throttled blob."""


def holds(engine: DockerEngine, reference: str) -> bool:
    return engine.api("GET", f"/images/{reference}/json")[0] == 200


def shown(server: Server, agent_id: str) -> set[str]:
    """The references by tag that the mapping shows on an agent."""
    listed = server.cli("image", "ls", "--json").json
    return {
        image["reference"]
        for image in listed
        if any(holder["agentId"] == agent_id for holder in image["agents"])
    }


def test_a_pull_outlives_its_engine(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "faults/killed", layers=1, size=1_200_000)
    reference = sample.at(proxy.host)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    started = server.cli("image", "preload", reference, "--all-agents", "--detach", "--json")
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=200_000)

    engines[0].kill()
    proxy.rules()
    engines[0].start()
    ended = server.wait_task(started.json["id"])

    assert ended.code == 0, ended
    assert [item["status"] for item in ended.json["items"]] == ["done", "done"]
    assert all(holds(engine, reference) for engine in engines)


def test_a_cancel_does_not_wait_for_an_engine_that_hangs(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "faults/hanging", layers=1, size=4_000_000)
    reference = sample.at(proxy.host)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    started = server.cli("image", "preload", reference, "--agents", "left-1", "--detach", "--json")
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=200_000)
    engines[0].pause()
    try:
        assert server.cli("task", "cancel", started.json["id"]).code == 0
        ended = server.wait_task(started.json["id"], timeout=60)
    finally:
        engines[0].resume()

    assert ended.json["status"] == "cancelled", ended
    assert processes.wait_until(lambda: all(e.ended for e in proxy.log), within=10)
    assert not holds(engines[0], reference)


def test_what_people_do_by_hand_meanwhile_changes_no_result(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    engine = engines[0]
    sample = push_sample(registry.host, "faults/by-hand", layers=1, size=1_000_000)
    other = push_sample(registry.host, "faults/other", layers=1, size=1_000)
    reference = sample.at(proxy.host)
    engine.pull(other.at(registry.host))
    engine.api("POST", f"/images/{other.at(registry.host)}/tag?repo={reference[:-3]}&tag=v1")
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    started = server.cli("image", "preload", reference, "--agents", "left-1", "--detach", "--json")
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=100_000)

    assert engine.api("POST", "/images/prune?filters=%7B%22dangling%22%3A%5B%22false%22%5D%7D")[0]
    ended = server.wait_task(started.json["id"])

    assert [item["status"] for item in ended.json["items"]] == ["done"]
    image = engine.api("GET", f"/images/{reference}/json")[1]
    assert image["RepoDigests"] == [sample.pinned(proxy.host)]
    assert engine.api("DELETE", f"/images/{reference}")[0] == 200
    assert processes.wait_until(lambda: reference not in shown(server, "left-1"), within=15)


def test_no_container_loses_its_image_to_an_unload_at_the_same_time(
    server: Server, engines: Engines, registry: Registry
) -> None:
    engine = engines[0]
    references = [
        push_sample(registry.host, f"faults/race-{number}", layers=1, size=1_000).at(registry.host)
        for number in range(8)
    ]
    preloaded = server.cli("image", "preload", *references, "--agents", "left-1", "--json")
    assert preloaded.code == 0, preloaded
    started = server.cli("image", "unload", *references, "--agents", "left-1", "--detach", "--json")
    used = set()
    for reference in reversed(references):
        if engine.api("POST", "/containers/create", {"Image": reference, "Cmd": ["x"]})[0] == 201:
            used.add(reference)
    ended = server.wait_task(started.json["id"])

    for item in ended.json["items"]:
        gone = not holds(engine, item["reference"])
        assert gone == (item["status"] in {"done", "skipped"}), item
        assert not (gone and item["reference"] in used), item
    left = {item["reference"] for item in ended.json["items"] if item["status"] == "failed"}
    assert processes.wait_until(lambda: shown(server, "left-1") == left, within=5)
