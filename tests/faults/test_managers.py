"""Several managers on one PostgreSQL database, agents as programs of their own."""

from collections.abc import Iterator

import pytest
from rig import processes
from rig.cluster import Engines
from rig.postgres import Postgres
from rig.production import Production
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import push_sample

TAKEN_OVER = 60.0


@pytest.fixture(scope="module")
def production(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Postgres,
    postgres_template: str,
    _engines: Engines,
    _proxy: FaultProxy,
) -> Iterator[Production]:
    """One manager, and an agent per engine that speaks to it."""
    database = postgres.fresh_database(postgres_template)
    with Production(tmp_path_factory.mktemp("production"), database) as running:
        running.start_manager()
        token = running.cli(0, "agent", "token", "tests", "--json").json["token"]
        for name, engine in zip(("one", "two"), _engines, strict=True):
            running.start_agent(name, engine, token)

        def up() -> bool:
            agents = running.cli(0, "agent", "ls", "--json").json
            return [agent["status"] for agent in agents] == ["UP", "UP"]

        assert processes.wait_until(up, TAKEN_OVER)
        assert running.cli(0, "registry", "add", f"http://{_proxy.host}").code == 0
        yield running


def test_another_manager_goes_on_with_the_task_of_one_that_was_killed(
    production: Production, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    production.start_manager()
    sample = push_sample(registry.host, "managers/killed", layers=1, size=3_000_000)
    reference = sample.at(proxy.host)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=400_000))
    started = production.cli(
        -1, "image", "preload", reference, "--all-agents", "--detach", "--json"
    )
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=200_000)

    production.managers[-1].kill()
    task_id = started.json["id"]
    ended = production.cli(0, "task", "watch", task_id, "--json", timeout=TAKEN_OVER)

    assert ended.code == 0, ended
    assert [item["status"] for item in ended.json["items"]] == ["done", "done"]
    assert [item["attempts"] for item in ended.json["items"]] == [1, 1]
    for engine in engines:
        image = engine.api("GET", f"/images/{reference}/json")[1]
        assert image["RepoDigests"] == [sample.pinned(proxy.host)]
    asked = [e.path for e in proxy.log if e.method == "GET" and e.path.endswith(sample.blobs[1])]
    assert len(asked) == len(engines)


@pytest.mark.usefixtures("engines")
def test_what_one_manager_did_the_other_shows(
    production: Production, registry: Registry, proxy: FaultProxy
) -> None:
    production.start_manager()
    reference = push_sample(registry.host, "managers/both", layers=1).at(proxy.host)

    ended = production.cli(-1, "image", "preload", reference, "--all-agents", "--json")

    assert ended.code == 0, ended
    listed = production.cli(0, "image", "ls", "--json").json
    where = {image["reference"]: [a["agentId"] for a in image["agents"]] for image in listed}
    assert where[reference] == ["one", "two"]
