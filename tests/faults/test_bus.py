"""Two managers on one PostgreSQL and one Redis, which is flushed, frozen and restarted."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import processes
from rig.cluster import Engines
from rig.postgres import Postgres
from rig.production import Production
from rig.proxy import FaultProxy, Rate
from rig.redis import RedisProcess
from rig.registry import Registry
from rig.samples import push_sample
from rig.sse import Event
from rig.watching import watching

SOON = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisProcess]:
    """A Redis of its own, since it fares badly."""
    with RedisProcess(Path(tempfile.gettempdir()) / f"wharfinger-faulty-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def production(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Postgres,
    postgres_template: str,
    server: RedisProcess,
    _engines: Engines,
    _proxy: FaultProxy,
) -> Iterator[Production]:
    """Two managers, and an agent that speaks to the first."""
    database = postgres.fresh_database(postgres_template)
    settings = {"WHARFINGER_REDIS_URL": server.url}
    with Production(tmp_path_factory.mktemp("ringing"), database, settings) as running:
        running.start_manager()
        token = running.cli(0, "agent", "token", "tests", "--json").json["token"]
        running.start_agent("one", _engines[0], token)
        running.start_manager()

        def up() -> bool:
            agents = running.cli(1, "agent", "ls", "--json").json
            return [agent["status"] for agent in agents] == ["UP"]

        assert processes.wait_until(up, SOON)
        assert running.cli(0, "registry", "add", f"http://{_proxy.host}").code == 0
        yield running


def from_the_bus(events: list[Event]) -> list[Event]:
    """Those that the database cannot have told: they have a number within their run."""
    return [event for event in events if event.id.partition("-")[2] not in {"", "0"}]


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize("fault", ["flushed", "frozen", "restarted"])
def test_progress_is_live_on_the_other_manager_and_the_end_is_right(
    production: Production,
    server: RedisProcess,
    registry: Registry,
    proxy: FaultProxy,
    fault: str,
) -> None:
    sample = push_sample(registry.host, f"bus/{fault}", layers=1, size=3_000_000)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=400_000))
    blob = f"GET .*/blobs/{sample.blobs[1]}"
    # the second manager runs it; the agent reports to the first, which also shows it
    started = production.cli(
        1, "image", "preload", sample.at(proxy.host), "--all-agents", "--detach", "--json"
    )
    with watching(production.at(0), started.json["id"]) as events:
        assert processes.wait_until(lambda: from_the_bus(events) != [], SOON)
        proxy.wait_for(blob, sent=200_000)
        match fault:
            case "flushed":
                server.flush()
            case "frozen":
                server.freeze()
                proxy.wait_for(blob, sent=900_000)
                server.thaw()
            case "restarted":
                server.kill()
                proxy.wait_for(blob, sent=900_000)
                server.start()
        heard = len(from_the_bus(events))
        assert processes.wait_until(lambda: len(from_the_bus(events)) > heard + 1, SOON)
        assert events[-1].kind == "bgtask_updated"

    assert events[-1].kind == "bgtask_done"
    (item,) = events[-1].data["items"]
    assert (item["status"], item["attempts"]) == ("done", 1)
    counts = [event.data["current_progress"] for event in events]
    assert counts == sorted(counts)
    ended = production.cli(1, "task", "show", started.json["id"], "--json")
    assert ended.json["status"] == "succeeded"


def test_what_is_outstanding_can_be_read_by_others(
    production: Production, server: RedisProcess, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "bus/mirrored", layers=1, size=600_000)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=400_000))
    started = production.cli(
        1, "image", "preload", sample.at(proxy.host), "--all-agents", "--detach", "--json"
    )

    def mirrored() -> bool:
        found = server.ask("ZRANGE", "wharfinger:outstanding:download", "0", "-1")
        return bool(found == [started.json["id"]])

    assert processes.wait_until(mirrored, SOON)
    production.cli(0, "task", "watch", started.json["id"], "--json")
    assert processes.wait_until(lambda: not mirrored(), SOON)
