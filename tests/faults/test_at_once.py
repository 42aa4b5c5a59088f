"""Operations on the same things at the same time, and cancels that come early."""

from typing import Any

import httpx2
import pytest
from rig import images, processes
from rig.cluster import Engines
from rig.engines import DockerEngine
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import push_sample
from rig.server import Server
from rig.sse import Event
from rig.watching import watch

SLOW = 400_000
"""Bytes per second of a throttled blob."""
START = """mutation($refs: [String!]!) { %s(targetAgents: ["*"], references: $refs) {
  ... on BackgroundTaskStarted { taskId } } }"""
CANCEL = "mutation($id: ID!) { cancelTask(id: $id) { ... on Task { id } } }"


def holds(engine: DockerEngine, reference: str) -> bool:
    return engine.api("GET", f"/images/{reference}/json")[0] == 200


def ask(server: Server, document: str, **variables: Any) -> Any:
    """One GraphQL operation; faster than the command line."""
    answered = httpx2.post(
        f"{server.url}/graphql",
        json={"query": document, "variables": variables},
        headers={"Authorization": f"Bearer {server.token}"},
        timeout=30,
    )
    return answered.raise_for_status().json()["data"]


def begin(server: Server, operation: str, reference: str) -> str:
    """The id of the task that does `preloadImage` or `unloadImage` on all agents."""
    started = ask(server, START % operation, refs=[reference])
    return str(started[operation]["taskId"])


def end_of(server: Server, task_id: str) -> Event:
    return list(watch(server, task_id))[-1]


@pytest.mark.parametrize("asked_for", ["nothing", "manifests", "config"])
def test_a_cancel_that_comes_early_stops_what_has_hardly_begun(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy, asked_for: str
) -> None:
    sample = push_sample(registry.host, f"at-once/early-{asked_for}", layers=1, size=1_500_000)
    reference = sample.at(proxy.host)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    task_id = begin(server, "preloadImage", reference)
    if asked_for == "manifests":
        proxy.wait_for(f"GET .*/manifests/{sample.root_digest}")
    elif asked_for == "config":
        proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}")

    ask(server, CANCEL, id=task_id)
    ended = end_of(server, task_id)

    assert ended.kind == "bgtask_cancelled"
    assert {item["status"] for item in ended.data["items"]} == {"cancelled"}
    assert processes.wait_until(lambda: all(e.ended for e in proxy.log), within=5)
    assert not any(holds(engine, reference) for engine in engines)


def test_tags_of_one_image_share_its_pull_and_come_and_go_by_themselves(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    layers = [images.busybox_layer(), images.random_layer("data", 800_000)]
    first, second = (images.push(registry.host, "at-once/tags", tag, layers) for tag in "ab")
    assert first.root_digest == second.root_digest
    name = f"{proxy.host}/at-once/tags"
    references = [
        f"{name}:a",
        f"{name}:b",
        f"{name}@{first.root_digest}",
        f"{name}:c@{first.root_digest}",
    ]
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    task_ids = [begin(server, "preloadImage", reference) for reference in references]

    ends = [end_of(server, task_id) for task_id in task_ids]

    assert {end.kind for end in ends} == {"bgtask_done"}
    data = [e for e in proxy.log if e.method == "GET" and layers[1].digest in e.path]
    assert len(data) == len(engines)
    for engine in engines:
        tags = set(engine.api("GET", f"/images/{name}:a/json")[1]["RepoTags"])
        assert tags == {f"{name}:{tag}" for tag in "abc"}

    one = end_of(server, begin(server, "unloadImage", references[0]))
    assert one.kind == "bgtask_done"
    assert set(one.data["items"][0]["keptBy"]) > {f"{name}:b", f"{name}:c"}
    assert all(holds(engine, f"{name}:b") for engine in engines)
    rest = end_of(server, begin(server, "unloadImage", references[2]))
    assert rest.data["items"][0]["keptBy"] == []
    assert not any(holds(engine, reference) for engine in engines for reference in references)


@pytest.mark.parametrize("order", [("preload", "unload"), ("unload", "preload")])
def test_a_preload_and_an_unload_of_one_image_both_end_truly(
    server: Server,
    engines: Engines,
    registry: Registry,
    proxy: FaultProxy,
    order: tuple[str, str],
) -> None:
    sample = push_sample(registry.host, f"at-once/{order[0]}-first", layers=1, size=400_000)
    reference = sample.at(proxy.host)
    if order[0] == "unload":
        assert end_of(server, begin(server, "preloadImage", reference)).kind == "bgtask_done"
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    task_ids = {what: begin(server, f"{what}Image", reference) for what in order}

    ends = {what: end_of(server, task_id) for what, task_id in task_ids.items()}

    assert {end.kind for end in ends.values()} == {"bgtask_done"}
    did = {
        (what, item["agentId"]): item["status"] == "done"
        for what, end in ends.items()
        for item in end.data["items"]
    }
    for agent_id, engine in zip(("left-1", "right-1"), engines, strict=True):
        brought, removed = did["preload", agent_id], did["unload", agent_id]
        assert brought or removed
        if brought != removed:  # else either may have been the last
            assert holds(engine, reference) == brought
