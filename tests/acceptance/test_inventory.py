"""What the commands say is where, against what was done by hand."""

from typing import Any

from rig import processes
from rig.cluster import Engines
from rig.registry import Registry
from rig.samples import push_sample
from rig.server import Server

SOON = 2.0


def where(server: Server, reference: str) -> list[str]:
    listed = server.cli("image", "ls", "--json").json
    return [
        agent["agentId"]
        for image in listed
        if image["reference"] == reference
        for agent in image["agents"]
    ]


def test_what_is_done_by_hand_on_a_host_shows_within_two_seconds(
    server: Server, engines: Engines, registry: Registry
) -> None:
    reference = push_sample(registry.host, "inventory/hand", layers=1).at(registry.host)
    assert where(server, reference) == []

    engines[0].pull(reference)
    assert processes.wait_until(lambda: where(server, reference) == ["left-1"], SOON)

    status, _ = engines[0].api("POST", f"/images/{reference}/tag?repo={registry.host}/b&tag=w")
    assert status == 201
    other = f"{registry.host}/b:w"
    assert processes.wait_until(lambda: where(server, other) == ["left-1"], SOON)

    assert engines[0].api("DELETE", f"/images/{reference}")[0] == 200
    assert processes.wait_until(lambda: where(server, reference) == [], SOON)
    assert where(server, other) == ["left-1"]


def test_agents_say_which_engine_they_stand_beside(server: Server, engines: Engines) -> None:
    agents = server.cli("agent", "ls", "--json").json
    version = engines[0].api("GET", "/version")[1]["Version"]
    assert [(agent["id"], agent["scalingGroup"], agent["status"]) for agent in agents] == [
        ("left-1", "left", "UP"),
        ("right-1", "right", "UP"),
    ]
    for agent in agents:
        assert agent["architecture"] == "amd64"
        engine: dict[str, Any] = agent["engine"]
        assert (engine["kind"], engine["version"], engine["store"]) == (
            "docker",
            version,
            "classic",
        )
    shown = server.cli("agent", "show", "left-1", "--json").json
    assert [row["to"] for row in shown["transitions"]] == ["JOINING", "UP"]


def test_an_engine_that_dies_is_reported_and_recovers(server: Server, engines: Engines) -> None:
    def problem() -> str:
        return str(server.cli("agent", "show", "left-1", "--json").json["engine"]["problem"])

    assert problem() == ""
    engines[0].kill()
    assert processes.wait_until(lambda: problem() != "", 10)
    engines[0].start()
    assert processes.wait_until(lambda: problem() == "", 15)


def test_a_removed_agent_is_gone_from_the_lists_and_unknown_to_selectors(
    own_server: Server, registry: Registry
) -> None:
    reference = push_sample(registry.host, "inventory/removed", layers=1).at(registry.host)
    assert own_server.cli("image", "preload", reference, "--all-agents").code == 0

    assert own_server.cli("agent", "rm", "left-1").code == 0

    assert [agent["id"] for agent in own_server.cli("agent", "ls", "--json").json] == ["right-1"]
    assert where(own_server, reference) == ["right-1"]
    refused = own_server.cli("image", "preload", reference, "--agents", "left-1", "--json")
    assert refused.json["error"]["class"] == "unknown-selector"


def test_a_cordoned_agent_says_so_and_is_still_preloaded(
    server: Server, registry: Registry
) -> None:
    reference = push_sample(registry.host, "inventory/cordoned", layers=1).at(registry.host)
    cordoned = server.cli("agent", "cordon", "left-1", "--json")
    assert cordoned.json["cordoned"] is True

    assert server.cli("image", "preload", reference, "--agents", "left-1").code == 0

    assert server.cli("agent", "uncordon", "left-1", "--json").json["cordoned"] is False
