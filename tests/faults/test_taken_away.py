"""What work stands on, taken away in the middle: disk, database, registry, agent."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import processes
from rig.cluster import Engines
from rig.engines import DockerEngine
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import Sample, push_sample
from rig.server import Server
from rig.watching import watch

SLOW = 400_000
"""Bytes per second of a throttled blob."""
DISK = 8 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Where `own_server` keeps its data, on a disk of its own."""
    folder = tmp_path / "server" / "data"
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "data", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def begin(
    server: Server, registry: Registry, proxy: FaultProxy, repository: str
) -> tuple[Sample, str]:
    """A slow preload on all agents whose data flows; the image and the task's id."""
    sample = push_sample(registry.host, repository, layers=1, size=1_500_000)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    started = server.cli(
        "image", "preload", sample.at(proxy.host), "--all-agents", "--detach", "--json"
    )
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=100_000)
    return sample, started.json["id"]


def holds(engine: DockerEngine, reference: str) -> bool:
    return engine.api("GET", f"/images/{reference}/json")[0] == 200


def test_a_full_disk_costs_a_task_nothing_but_time(
    small_disk: Path, own_server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample, task_id = begin(own_server, registry, proxy, "taken/disk")
    filler = small_disk / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], check=False)
    refused = own_server.cli("user", "add", "ada", "--json")
    assert refused.code == 1
    assert "full" in refused.json["error"]["message"]
    assert processes.wait_until(lambda: "failed once" in own_server.log_path.read_text(), within=20)

    filler.unlink()
    ended = own_server.wait_task(task_id)

    assert ended.code == 0, ended
    assert {item["status"] for item in ended.json["items"]} == {"done"}
    assert all(holds(engine, sample.at(proxy.host)) for engine in engines)


def test_a_new_database_finds_its_agents_again(own_server: Server) -> None:
    own_server.kill()
    for file in own_server.token_path.parent.glob("wharfinger.db*"):
        file.unlink()
    own_server.start()
    own_server.agents_up()


def test_what_is_removed_during_a_preload_ends_its_part_of_it(
    own_server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample, task_id = begin(own_server, registry, proxy, "taken/removed")

    assert own_server.cli("agent", "rm", "right-1").code == 0
    assert own_server.cli("registry", "rm", proxy.host).code == 0
    engines[0].kill()
    engines[0].start()
    end = list(watch(own_server, task_id))[-1]

    assert end.kind == "bgtask_failed"
    left, right = end.data["items"]
    assert left["failure"]["class"] == "auth"
    assert f"registry {proxy.host} is not known here" in left["failure"]["message"]
    assert right["failure"]["class"] == "agent-lost"
    assert processes.wait_until(lambda: all(e.ended for e in proxy.log), within=10)
    assert not any(holds(engine, sample.at(proxy.host)) for engine in engines)
