"""The line between an agent and a manager that misbehaves."""

import asyncio
import stat
import time
from pathlib import Path

import pytest
from rig.agents import RunningAgent, StartAgent
from rig.orders import SampleImage, pull
from rig.proxy import FaultProxy, Rate
from rig.recording_manager import Manners, RecordingManager
from rig.registry import Registry

from wharfinger.contracts.ingest import ImagePullFinished
from wharfinger.domain.errors import Forbidden, InvalidRequest, StaleIncarnation


async def test_an_agent_joins_with_a_token_and_comes_back_with_its_credential(
    start_agent: StartAgent, manager: RecordingManager, tmp_path: Path
) -> None:
    first = await start_agent()
    await manager.until(lambda: bool(manager.reports))
    identity = tmp_path / "agent" / "agent.json"
    assert stat.S_IMODE(identity.stat().st_mode) == 0o600
    assert manager.registrations[0].bearer == manager.JOIN_TOKEN
    first.task.cancel()
    await asyncio.wait({first.task})

    await start_agent(join_token=None)
    assert manager.registrations[1].bearer == manager.credential
    old, new = (heard.registration for heard in manager.registrations)
    assert old.agent_id == new.agent_id
    assert old.incarnation != new.incarnation
    assert old.call_token != new.call_token


async def test_an_agent_on_every_interface_must_be_told_its_url(start_agent: StartAgent) -> None:
    with pytest.raises(InvalidRequest, match="every interface"):
        await start_agent(host="0.0.0.0")
    await start_agent(host="0.0.0.0", advertise="http://127.0.0.1:1")


async def test_an_agent_that_never_joined_needs_a_token(start_agent: StartAgent) -> None:
    with pytest.raises(InvalidRequest, match="needs a join token"):
        await start_agent(join_token=None)


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("manners", [Manners.LOSES_ACKNOWLEDGEMENTS, Manners.UNREACHABLE])
async def test_nothing_is_lost_while_the_line_is_bad(
    manager: RecordingManager, registry: Registry, manners: Manners
) -> None:
    image = SampleImage(registry)
    manager.manners = manners
    before = len(manager.reports)
    await pull(manager, image.order("t1"))
    if manners is Manners.LOSES_ACKNOWLEDGEMENTS:
        await manager.end_of("t1")
        await manager.until(lambda: sum(bool(each.events) for each in manager.reports) > 2)
    manager.manners = Manners.GOOD
    assert isinstance(await manager.end_of("t1"), ImagePullFinished)
    await manager.until(lambda: image.tag in manager.images())
    await manager.until(lambda: not manager.last.events)
    heard = [report.begun for report in manager.reports]
    assert heard == sorted(set(heard))
    assert len(manager.ends("t1")) == 1
    assert len(manager.reports) > before


@pytest.mark.usefixtures("agent")
async def test_what_matters_is_posted_at_once(
    manager: RecordingManager, registry: Registry
) -> None:
    manager.report_seconds = 30
    await manager.until(lambda: len(manager.reports) > 2)
    image = SampleImage(registry)
    await pull(manager, image.order("t1"))
    assert isinstance(await manager.end_of("t1", within=10), ImagePullFinished)
    await manager.until(lambda: image.tag in manager.images(), within=5)


@pytest.mark.usefixtures("agent")
async def test_attempts_are_in_hand_until_their_end_is_told(
    manager: RecordingManager, registry: Registry, proxy: FaultProxy
) -> None:
    image = SampleImage(registry, via=proxy, size=512 * 1024)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=1024 * 1024))
    await pull(manager, image.order("t1"))
    await manager.until(lambda: manager.last.in_hand == ("t1",))
    end = await manager.end_of("t1")
    for report in manager.reports:
        told = any(event.sequence == end.sequence for event in report.events)
        assert not (told and "t1" in report.in_hand)


async def test_an_older_process_of_an_agent_ends(
    agent: RunningAgent, manager: RecordingManager
) -> None:
    manager.manners = Manners.SAYS_STALE
    with pytest.raises(StaleIncarnation):
        await agent.ended()


async def test_a_retired_agent_ends(
    agent: RunningAgent, start_agent: StartAgent, manager: RecordingManager
) -> None:
    manager.manners = Manners.SAYS_RETIRED
    with pytest.raises(Forbidden):
        await agent.ended()
    late = await start_agent(registered=False)
    with pytest.raises(Forbidden, match="the state folder is /"):
        await late.ended()


async def test_an_agent_joins_anew_where_nobody_knows_it_any_more(
    agent: RunningAgent, start_agent: StartAgent, manager: RecordingManager
) -> None:
    agent.task.cancel()
    await asyncio.wait({agent.task})
    manager.credential = "of another database"

    await start_agent()

    assert manager.registrations[-1].bearer == manager.JOIN_TOKEN
    heard = len(manager.reports)
    await manager.until(lambda: len(manager.reports) > heard)


@pytest.mark.usefixtures("agent")
async def test_an_agent_that_is_refused_asks_again_until_it_is_taken(
    manager: RecordingManager,
) -> None:
    manager.manners = Manners.SAYS_UNAUTHENTICATED
    await manager.until(lambda: manager.refusals >= 2)
    manager.manners = Manners.GOOD
    heard = len(manager.reports)
    await manager.until(lambda: len(manager.reports) > heard)


async def test_an_agent_with_pulls_under_way_ends_within_three_seconds(
    agent: RunningAgent, manager: RecordingManager, registry: Registry, proxy: FaultProxy
) -> None:
    image = SampleImage(registry, via=proxy, size=4 * 1024 * 1024)
    proxy.rules(Rate(match="/blobs/", bytes_per_second=512 * 1024))
    await pull(manager, image.order("t1"))
    layer = image.layers[0].digest
    exchange = await asyncio.to_thread(proxy.wait_for, f"GET .*{layer}", sent=1)
    began = time.monotonic()
    agent.task.cancel()
    await asyncio.wait({agent.task})
    assert time.monotonic() - began < 3
    await asyncio.to_thread(proxy.wait_for, exchange.path, ended=True)
    assert exchange.client_left
