"""Unload through the public interfaces, on real engines."""

from collections.abc import Sequence
from typing import Any

import pytest
from rig.cluster import Engines
from rig.engines import DockerEngine
from rig.registry import Registry
from rig.samples import Sample, push_sample
from rig.server import Outcome, Server


def preloaded(server: Server, registry: Registry, repository: str) -> Sample:
    sample = push_sample(registry.host, repository, layers=1)
    done = server.cli("image", "preload", sample.at(registry.host), "--all-agents", "--json")
    assert done.code == 0, done
    return sample


def unload(server: Server, *references: str, agents: str = "*") -> Outcome:
    return server.cli("image", "unload", *references, "--agents", agents, "--json")


def by_agent(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["agentId"]: item for item in task["items"]}


def names(engine: DockerEngine) -> Sequence[str]:
    images = engine.api("GET", "/images/json")[1]
    return [tag for image in images for tag in image["RepoTags"] or image["RepoDigests"]]


def test_an_unload_takes_the_image_from_one_group_and_leaves_the_other(
    server: Server, engines: Engines, registry: Registry
) -> None:
    sample = preloaded(server, registry, "unload/group")

    ended = unload(server, sample.at(registry.host), agents="sgroup:left")

    assert ended.code == 0, ended
    assert [item["status"] for item in ended.json["items"]] == ["done"]
    assert names(engines[0]) == []
    assert names(engines[1]) == [sample.at(registry.host)]
    listed = server.cli("image", "ls", "--json").json
    where = {image["reference"]: image["agents"] for image in listed}
    held = where[sample.at(registry.host)]
    assert [(each["agentId"], each["status"]) for each in held] == [("right-1", "present")]


@pytest.mark.parametrize("start", [True, False], ids=["running", "created"])
def test_a_host_where_a_container_uses_it_says_so_and_the_others_go_on(
    server: Server, engines: Engines, registry: Registry, *, start: bool
) -> None:
    sample = preloaded(server, registry, "unload/used")
    reference = sample.at(registry.host)
    engines[1].create_container(reference, "somebody-elses", start=start)

    ended = unload(server, reference)

    assert ended.code == 3, ended
    items = by_agent(ended.json)
    assert items["left-1"]["status"] == "done"
    assert items["right-1"]["failure"]["class"] == "in-use"
    assert "somebody-elses" in items["right-1"]["failure"]["message"]
    assert items["right-1"]["attempts"] == 1
    assert names(engines[1]) == [reference]


def test_an_image_already_gone_is_skipped(
    server: Server, engines: Engines, registry: Registry
) -> None:
    sample = preloaded(server, registry, "unload/gone")
    status, _ = engines[0].api("DELETE", f"/images/{sample.at(registry.host)}")
    assert status == 200

    ended = unload(server, sample.at(registry.host))

    assert ended.code == 0
    assert {a: i["status"] for a, i in by_agent(ended.json).items()} == {
        "left-1": "skipped",
        "right-1": "done",
    }


def test_another_tag_of_the_image_keeps_its_layers_and_is_named(
    server: Server, engines: Engines, registry: Registry
) -> None:
    sample = preloaded(server, registry, "unload/kept")
    reference = sample.at(registry.host)
    status, _ = engines[0].api("POST", f"/images/{reference}/tag?repo=mine&tag=copy")
    assert status == 201

    ended = unload(server, reference, agents="left-1")

    assert ended.code == 0
    assert ended.json["items"][0]["keptBy"] == ["docker.io/library/mine:copy"]
    assert names(engines[0]) == ["mine:copy"]


def test_an_unload_asks_no_registry(server: Server, engines: Engines, registry: Registry) -> None:
    sample = preloaded(server, registry, "unload/offline")
    registry.stop()
    try:
        ended = unload(server, sample.at(registry.host))
    finally:
        registry.start()

    assert ended.code == 0, ended
    assert names(engines[0]) == names(engines[1]) == []
