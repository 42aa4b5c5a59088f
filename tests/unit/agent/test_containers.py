"""What is known of containers is what the latest look showed."""

import asyncio

import pytest
from rig.containers_in_memory import ContainersInMemory
from rig.misbehaving_engine import DEAD, NO_CONTAINER

from wharfinger.agent.containers import ContainerListing
from wharfinger.agent.engine.port import EngineError
from wharfinger.agent.ours import AGENT, CLUSTER, KERNEL, Ours, container_name

NAME = container_name("k1")


class Yard:
    """A listing that has been made once, beside an engine in memory."""

    def __init__(self) -> None:
        self.engine = ContainersInMemory()
        self.ours = Ours("a1")
        self.news = asyncio.Event()
        self.listing = ContainerListing(self.engine, self.ours, self.news)

    def make(self, kernel_id: str = "k1", **labels: str) -> None:
        marks = {KERNEL: kernel_id, CLUSTER: "c1", AGENT: "a1"}
        self.engine.put(container_name(kernel_id), labels=marks | labels)

    def states(self) -> dict[str, str] | None:
        current = self.listing.current
        return None if current is None else {each.kernel_id: each.state for each in current}


@pytest.fixture
async def yard() -> Yard:
    yard = Yard()
    yard.ours.join("c1")
    await yard.listing.refresh()
    yard.news.clear()
    return yard


async def test_nothing_is_known_before_the_cluster_is() -> None:
    yard = Yard()
    yard.make()
    refreshing = asyncio.create_task(yard.listing.refresh())
    await asyncio.sleep(0)
    assert yard.states() is None
    yard.ours.join("c1")
    await refreshing
    assert yard.states() == {"k1": "created"}
    yard.ours.join("c2")
    assert yard.states() is None


async def test_what_is_not_ours_is_not_listed(yard: Yard) -> None:
    yard.make("k1", **{CLUSTER: "another"})
    yard.make("k2", **{AGENT: "another"})
    yard.make("")
    yard.engine.put("somebody's")
    await yard.listing.refresh()
    assert yard.states() == {}
    assert await yard.listing.look("k1") is None
    assert not yard.news.is_set()


async def test_a_listing_begun_before_a_look_does_not_undo_what_it_showed(yard: Yard) -> None:
    yard.engine.held_up["containers"] = asyncio.Event()
    refreshing = asyncio.create_task(yard.listing.refresh())
    await asyncio.sleep(0)
    let_go = yard.engine.held_up.pop("containers")
    yard.make()
    yard.engine.run(NAME)
    await yard.listing.look("k1")
    let_go.set()
    await refreshing
    assert yard.states() == {"k1": "running"}


async def test_a_listing_begun_before_a_removal_does_not_bring_it_back(yard: Yard) -> None:
    yard.make()
    await yard.listing.refresh()
    yard.engine.held_up["containers"] = asyncio.Event()
    refreshing = asyncio.create_task(yard.listing.refresh())
    await asyncio.sleep(0)
    let_go = yard.engine.held_up.pop("containers")
    yard.engine.vanish(NAME)
    await yard.listing.look("k1")
    let_go.set()
    await refreshing
    assert yard.states() == {}


async def test_a_container_is_inspected_only_when_its_state_changed(yard: Yard) -> None:
    yard.make()
    yard.engine.run(NAME)
    await yard.listing.refresh()
    yard.engine.asked_for.clear()
    await yard.listing.refresh()
    assert yard.engine.asked_for == ["containers"]
    yard.engine.exit(NAME, 3)
    await yard.listing.refresh()
    assert yard.engine.asked_for == ["containers", "containers", "container"]
    assert yard.listing.current is not None
    (container,) = yard.listing.current
    assert (container.ended, container.exit_code) == (True, 3)


async def test_any_change_is_news_and_nothing_else_is(yard: Yard) -> None:
    yard.make()
    await yard.listing.refresh()
    assert yard.news.is_set()
    yard.news.clear()
    await yard.listing.refresh()
    assert not yard.news.is_set()
    yard.engine.vanish(NAME)
    await yard.listing.refresh()
    assert yard.news.is_set()


async def test_nothing_is_known_while_the_engine_does_not_answer(yard: Yard) -> None:
    yard.make()
    await yard.listing.refresh()
    yard.listing.lost()
    assert yard.states() is None
    await yard.listing.refresh()
    assert yard.states() == {"k1": "created"}


@pytest.mark.parametrize("state", ["dead", "removing"])
async def test_what_the_engine_cannot_remove_has_ended(yard: Yard, state: str) -> None:
    yard.make()
    yard.engine.put(NAME, state=state, problem="unable to remove filesystem")
    container = await yard.listing.look("k1")
    assert container is not None
    assert container.ended
    assert container.problem == "unable to remove filesystem"


async def test_a_container_that_was_renamed_is_found(yard: Yard) -> None:
    yard.make()
    await yard.listing.refresh()
    yard.engine.made["renamed"] = yard.engine.made.pop(NAME)
    container = await yard.listing.look("k1")
    assert container is not None


async def test_a_container_that_was_renamed_is_found_by_who_never_saw_it() -> None:
    yard = Yard()
    yard.ours.join("c1")
    yard.make()
    yard.engine.made["renamed"] = yard.engine.made.pop(NAME)
    container = await yard.listing.look("k1")
    assert container is not None


async def test_of_two_containers_of_one_kernel_the_one_that_runs_is_shown(yard: Yard) -> None:
    yard.make()
    yard.engine.run(NAME)
    yard.engine.exit(NAME)
    yard.engine.put("copy", labels=yard.engine.made[NAME].labels)
    yard.engine.run("copy")
    await yard.listing.refresh()
    assert yard.listing.current is not None
    (container,) = yard.listing.current
    assert container.container_id == yard.engine.made["copy"].container_id
    assert await yard.listing.look("k1") == container
    assert yard.listing.doubles(container) == [yard.engine.made[NAME].container_id]


async def test_one_that_cannot_be_inspected_hides_no_other(yard: Yard) -> None:
    yard.make("k1")
    yard.make("k2")
    yard.engine.run(NAME)
    await yard.listing.refresh()
    before = await yard.listing.look("k1")
    assert before is not None
    yard.engine.unreadable[before.container_id] = NO_CONTAINER
    yard.engine.exit(NAME)
    yard.engine.run(container_name("k2"))
    await yard.listing.refresh()
    assert yard.states() == {"k1": "exited", "k2": "running"}
    assert yard.listing.current is not None
    known = yard.listing.current[0]
    assert (known.ended, known.started_at) == (True, before.started_at)
    assert known.problem == NO_CONTAINER.message
    yard.engine.unreadable.clear()
    await yard.listing.refresh()
    assert yard.listing.current[0].problem == ""


async def test_an_engine_that_dies_while_it_is_asked_is_told_apart(yard: Yard) -> None:
    yard.make()
    yard.engine.unreadable[yard.engine.made[NAME].container_id] = DEAD
    yard.engine.refused["describe"] = DEAD
    with pytest.raises(EngineError, match="does not answer"):
        await yard.listing.refresh()
