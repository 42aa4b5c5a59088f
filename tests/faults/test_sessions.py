"""Sessions while agents, engines, managers and events get lost."""

from collections.abc import Iterator

import pytest
from rig import sessions
from rig.cluster import Engines
from rig.event_thief import EventThief
from rig.postgres import Postgres
from rig.processes import wait_until
from rig.production import OneManager, Production
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import Sample, push_sample
from rig.sessions import SLEEP, SMALL

SLOW = 400_000
"""Bytes per second of a throttled blob."""
LOST, GRACE = 6.0, 20.0
"""Seconds until an agent is LOST, and until its sessions are given up."""
BACK_WITHIN = 30.0


@pytest.fixture
def production(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Postgres,
    postgres_template: str,
    engines: Engines,
    proxy: FaultProxy,
) -> Iterator[Production]:
    """One manager that is quick to give up agents, and agents `one` and `two`."""
    database = postgres.fresh_database(postgres_template)
    impatient = {
        "WHARFINGER_AGENT_LOST_SECONDS": str(LOST),
        "WHARFINGER_SESSION_LOST_GRACE_SECONDS": str(GRACE),
    }
    with Production(tmp_path_factory.mktemp("production"), database, impatient) as running:
        running.start_manager()
        for name, engine in zip(("one", "two"), engines, strict=True):
            running.start_agent(name, engine, join_token(running))
        wait_agents(running, {"one": "UP", "two": "UP"})
        assert running.cli(0, "registry", "add", f"http://{proxy.host}").code == 0
        yield running


@pytest.fixture
def manager(production: Production) -> OneManager:
    return production.at(0)


def join_token(production: Production) -> str:
    return str(production.cli(0, "agent", "token", "tests", "--json").json["token"])


def wait_agents(production: Production, expected: dict[str, str]) -> None:
    def so() -> bool:
        listed = production.cli(0, "agent", "ls", "--json").json
        return {agent["id"]: agent["status"] for agent in listed} == expected

    assert wait_until(so, 60)


def cold(registry: Registry, proxy: FaultProxy, name: str, size: int = 2_000_000) -> Sample:
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    return push_sample(registry.host, f"faults/{name}", layers=1, size=size)


def only(production: Production, agent_id: str) -> None:
    """Let sessions go to this agent alone."""
    other = {"one": "two", "two": "one"}[agent_id]
    assert production.cli(0, "agent", "cordon", other).code == 0


def nothing_left(production: Production, engines: Engines) -> bool:
    return sessions.nothing_left(production.at(0), engines)


def test_an_agent_killed_while_pulling_that_comes_back_goes_on_to_running(
    production: Production, manager: OneManager, registry: Registry, proxy: FaultProxy
) -> None:
    only(production, "one")
    sample = cold(registry, proxy, "pulling")
    session = sessions.create(manager, sample.at(proxy.host), *SLEEP)["id"]
    sessions.wait_for(manager, session, "PULLING")
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=100_000)

    production.kill_agent("one")
    production.restart_agent("one")

    running = sessions.wait_for(manager, session, "RUNNING", BACK_WITHIN)
    assert running["kernels"][0]["agentId"] == "one"


def test_an_agent_killed_while_creating_that_comes_back_makes_no_second_container(
    production: Production,
    manager: OneManager,
    engines: Engines,
    registry: Registry,
    proxy: FaultProxy,
) -> None:
    only(production, "one")
    reference = push_sample(registry.host, "faults/creating").at(proxy.host)
    slow = cold(registry, proxy, "creating-holds").at(proxy.host)
    session = sessions.create(manager, reference, "--kernel", slow, *SMALL, *SLEEP)["id"]
    with sessions.watching(manager, session) as watched:
        watched.wait_state("CREATING")
        production.kill_agent("one")

    production.restart_agent("one")

    sessions.wait_for(manager, session, "RUNNING", BACK_WITHIN)
    assert len(sessions.running(engines[0], session)) == 2
    assert len(sessions.containers(engines[0])) == 2


def test_an_engine_that_stands_still_while_creating_makes_one_container_in_the_end(
    production: Production,
    manager: OneManager,
    engines: Engines,
    registry: Registry,
    proxy: FaultProxy,
) -> None:
    only(production, "one")
    sample = cold(registry, proxy, "frozen", size=800_000)
    session = sessions.create(manager, sample.at(proxy.host), *SLEEP)["id"]
    with sessions.watching(manager, session) as watched:
        watched.wait_state("PREPARED")
        engines[0].pause()
    production.kill_agent("one")
    engines[0].resume()
    production.restart_agent("one")

    sessions.wait_for(manager, session, "RUNNING", BACK_WITHIN)
    assert len(sessions.containers(engines[0])) == 1


def test_an_agent_killed_while_its_session_runs_disturbs_nothing(
    production: Production,
    manager: OneManager,
    engines: Engines,
    registry: Registry,
    proxy: FaultProxy,
) -> None:
    only(production, "one")
    reference = push_sample(registry.host, "faults/running").at(proxy.host)
    session = sessions.create(manager, reference, *SLEEP)["id"]
    sessions.wait_for(manager, session, "RUNNING")
    [before] = sessions.running(engines[0], session)

    production.kill_agent("one")
    production.restart_agent("one")
    wait_agents(production, {"one": "UP", "two": "UP"})

    [after] = sessions.running(engines[0], session)
    assert after["State"]["StartedAt"] == before["State"]["StartedAt"]
    assert sessions.states(sessions.show(manager, session))[-1] == "RUNNING"
    assert manager.cli("session", "terminate", session, "--wait").code == 0
    assert wait_until(lambda: nothing_left(production, engines), 20)


def test_a_session_that_was_pulling_on_an_agent_that_stays_away_runs_on_another(
    production: Production,
    manager: OneManager,
    engines: Engines,
    registry: Registry,
    proxy: FaultProxy,
) -> None:
    only(production, "one")
    sample = cold(registry, proxy, "moves")
    session = sessions.create(manager, sample.at(proxy.host), *SLEEP)["id"]
    sessions.wait_for(manager, session, "PULLING")
    assert production.cli(0, "agent", "uncordon", "two").code == 0

    production.kill_agent("one")

    running = sessions.wait_for(manager, session, "RUNNING")
    assert running["kernels"][0]["agentId"] == "two"
    production.restart_agent("one")
    wait_agents(production, {"one": "UP", "two": "UP"})
    assert sessions.containers(engines[0]) == []
    assert sessions.running(engines[1], session)


def test_a_session_that_ran_on_an_agent_that_stays_away_ends_after_the_grace(
    production: Production,
    manager: OneManager,
    engines: Engines,
    registry: Registry,
    proxy: FaultProxy,
) -> None:
    only(production, "one")
    reference = push_sample(registry.host, "faults/given-up").at(proxy.host)
    session = sessions.create(manager, reference, *SLEEP)["id"]
    sessions.wait_for(manager, session, "RUNNING")

    production.kill_agent("one")
    lost = sessions.wait_for(manager, session, lambda seen: seen["statusInfo"] == "agent-lost")
    assert lost["status"] == "RUNNING"
    ended = sessions.wait_for(manager, session, lambda seen: seen["endedAt"] is not None)

    assert ended["status"] == "ERROR"
    assert ended["kernels"][0]["failure"]["class"] == "agent-lost"
    assert sessions.running(engines[0], session)  # nobody is there to stop it
    production.restart_agent("one")
    assert wait_until(lambda: nothing_left(production, engines), BACK_WITHIN)


def test_a_session_whose_finish_event_is_lost_starts_nonetheless(
    production: Production,
    manager: OneManager,
    engines: Engines,
    registry: Registry,
    proxy: FaultProxy,
) -> None:
    only(production, "one")
    production.kill_agent("one")
    with EventThief(production.url, "ImagePullFinished") as thief:
        token = join_token(production)
        assert production.cli(0, "agent", "rm", "one").code == 0
        production.start_agent("robbed", engines[0], token, manager_url=thief.url)
        wait_agents(production, {"robbed": "UP", "two": "UP"})
        sample = cold(registry, proxy, "robbed", size=800_000)
        session = sessions.create(manager, sample.at(proxy.host), *SLEEP)["id"]

        sessions.wait_for(manager, session, "RUNNING", BACK_WITHIN)

        assert thief.stolen == 1
        production.kill_agent("robbed")


def test_a_manager_killed_while_a_session_is_on_its_way_brings_it_to_run_at_the_next_start(
    production: Production, registry: Registry, proxy: FaultProxy
) -> None:
    sample = cold(registry, proxy, "two-managers")
    production.start_manager()
    session = sessions.create(production.at(1), sample.at(proxy.host), *SLEEP)["id"]
    sessions.wait_for(production.at(1), session, "PULLING")

    production.managers[1].kill()

    running = sessions.wait_for(production.at(0), session, "RUNNING", BACK_WITHIN)
    assert running["kernels"][0]["attempts"] == 1


def test_an_engine_that_was_killed_under_a_session_ends_it_with_its_exit_code(
    production: Production,
    manager: OneManager,
    engines: Engines,
    registry: Registry,
    proxy: FaultProxy,
) -> None:
    only(production, "one")
    reference = push_sample(registry.host, "faults/engine").at(proxy.host)
    session = sessions.create(manager, reference, "--", "/bin/busybox", "sleep", "3600")["id"]
    sessions.wait_for(manager, session, "RUNNING")

    engines[0].kill()
    engines[0].start()

    ended = sessions.wait_for(manager, session, lambda seen: seen["endedAt"] is not None)
    assert ended["status"] == "TERMINATED"
    assert ended["kernels"][0]["exitCode"] == 137
    assert wait_until(lambda: nothing_left(production, engines), BACK_WITHIN)
