#!/usr/bin/env python3
"""How much later a container runs when it is asked for as a session.

    benchmarks/session_start.py [--pairs 100] [--json PATH]

The image is there. A session is created, and a container with the very same settings is created
and started by hand, in turn, on one real engine. Compared is the time from before the request until
the engine says that the process started, both by this machine's clock. Goal: the median at most
30 ms over the raw one, the 99th percentile at most 80 ms over. Needs root and dockerd.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1]))

from rig import sessions
from rig.engines import DockerEngine
from rig.processes import wait_until
from rig.registry import Registry
from rig.samples import push_sample
from rig.server import Server

COMMAND: Final = list(sessions.SLEEP[1:])
MEDIAN_GOAL, P99_GOAL = 30.0, 80.0
"""Milliseconds over the raw start."""
_CREATE: Final = """
mutation ($reference: String!, $command: [String!]!) {
  createSession(kernels: [{reference: $reference, command: $command, cpu: 0.1, mem: 67108864}]) {
    ... on Session { id kernels { id } }
    ... on Failure { class message }
  }
}
"""


def main() -> None:
    """Measure, print, and say by the exit code whether the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), arguments.pairs)
    for name, value in figures.items():
        print(f"{name:<24} {value:9.1f}" if isinstance(value, float) else f"{name:<24} {value:9}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    met = figures["medianOverMs"] <= MEDIAN_GOAL and figures["p99OverMs"] <= P99_GOAL
    sys.exit(0 if met else 1)


def measure(folder: Path, pairs: int) -> dict[str, Any]:
    """Milliseconds of both, and how much one is over the other."""
    with (
        DockerEngine(folder / "engine") as engine,
        Registry(folder / "registry") as registry,
        Server(
            folder / "server", [("bench", engine)], {"WHARFINGER_AGENT_NETWORK": "none"}
        ) as server,
        httpx2.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}
        ) as client,
    ):
        server.agents_up()
        assert server.cli("registry", "add", f"http://{registry.host}").code == 0
        reference = push_sample(registry.host, "bench/start").at(registry.host)
        assert server.cli("image", "preload", reference, "--all-agents").code == 0
        ours, raw = [], []
        settings = start_session(server, engine, client, reference)[1]  # warms everything up
        for number in range(pairs):
            ours.append(start_session(server, engine, client, reference)[0])
            raw.append(start_raw(engine, settings, f"raw-{number}"))
    return {
        "pairs": pairs,
        "sessionMedianMs": statistics.median(ours),
        "sessionP99Ms": percentile(ours, 99),
        "rawMedianMs": statistics.median(raw),
        "rawP99Ms": percentile(raw, 99),
        "medianOverMs": statistics.median(ours) - statistics.median(raw),
        "p99OverMs": percentile(ours, 99) - percentile(raw, 99),
    }


def start_session(
    server: Server, engine: DockerEngine, client: httpx2.Client, reference: str
) -> tuple[float, dict[str, Any]]:
    """Milliseconds until its process started, and the container's settings; it is ended again."""
    variables = {"reference": reference, "command": COMMAND}
    began = time.time()
    response = client.post("/graphql", json={"query": _CREATE, "variables": variables})
    session = response.json()["data"]["createSession"]
    name = f"wharfinger-{session['kernels'][0]['id']}"

    def runs() -> bool:
        status, found = engine.api("GET", f"/containers/{name}/json")
        return status == 200 and bool(found["State"]["Running"])  # noqa: PLR2004 - an HTTP status

    assert wait_until(runs, 30)
    container = engine.api("GET", f"/containers/{name}/json")[1]
    sessions.wait_for(server, session["id"], "RUNNING")
    assert server.cli("session", "terminate", session["id"], "--wait").code == 0
    assert wait_until(lambda: not sessions.containers(engine), 30)
    return started_after(container, began), container


def start_raw(engine: DockerEngine, settings: dict[str, Any], name: str) -> float:
    """Milliseconds until the process of a container like that one started; it is removed again."""
    body = {**settings["Config"], "HostConfig": settings["HostConfig"]}
    body["Labels"] = {}
    began = time.time()
    status, made = engine.api("POST", f"/containers/create?name={name}", body)
    assert status == 201, made  # noqa: PLR2004 - an HTTP status
    assert engine.api("POST", f"/containers/{made['Id']}/start")[0] == 204  # noqa: PLR2004
    container = engine.api("GET", f"/containers/{name}/json")[1]
    engine.api("DELETE", f"/containers/{name}?force=1")
    return started_after(container, began)


def started_after(container: dict[str, Any], began: float) -> float:
    """Milliseconds from `began` (seconds since the epoch) until the engine says it started."""
    started = container["State"]["StartedAt"][:26].rstrip("Z") + "+00:00"
    return (datetime.fromisoformat(started).timestamp() - began) * 1000


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


if __name__ == "__main__":
    main()
