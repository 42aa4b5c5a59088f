"""A dry run says what would be asked of whom, and does nothing."""

from rig.odd_manager import OddManager

from .conftest import Program


def agent(agent_id: str, group: str, status: str = "UP") -> dict[str, object]:
    return {"id": agent_id, "scalingGroup": group, "status": status}


def test_a_dry_run_names_each_agent_and_starts_nothing(
    program: Program, manager: OddManager
) -> None:
    agents = [agent("a", "gpu"), agent("b", "gpu", "LOST"), agent("c", "cpu")]
    held = {
        "reference": "127.0.0.1:5000/app:v1",
        "rootDigest": "sha256:1",
        "size": 1,
        "agents": [{"agentId": "a", "status": "present"}, {"agentId": "b", "status": "pulling"}],
    }
    page = {"hasNextPage": False, "endCursor": None}
    manager.answers |= {
        "Agents": {"agents": agents},
        "Images": {"images": {"nodes": [held], "pageInfo": page}},
    }
    dry = ("image", "preload", "127.0.0.1:5000/app:v1", "--dry-run")
    ended = program.run(*dry, "--agents", "sgroup:gpu", "--json")
    assert ended.code == 0
    items = ended.document["items"]
    assert [(step["agentId"], step["agentStatus"], step["present"]) for step in items] == [
        ("a", "UP", True),
        ("b", "LOST", False),
    ]
    assert items[0]["rootDigest"] == "sha256:1"
    assert set(manager.operations()) == {"Agents", "Images"}
    unknown = program.run(*dry, "--agents", "nobody", "--json")
    assert unknown.code == 1
    assert unknown.document["error"]["class"] == "unknown-selector"
