"""Which agent takes a kernel, and that a room loses nothing."""

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.platforms import Platform
from wharfinger.domain.slots import Slots
from wharfinger.manager.scheduler.picture import Host
from wharfinger.manager.scheduler.placement import Need, NoRoom, Pool, Room

LINUX = Platform("linux", "amd64")
POOL = Pool("default", LINUX)
OTHER_POOL = Pool("other", LINUX)


def host(
    agent_id: str, capacity: Slots, occupied: Slots | None = None, group: str = "default"
) -> Host:
    return Host(agent_id, group, LINUX, True, False, capacity, occupied or Slots())


def need(slots: Slots, without: frozenset[str] = frozenset()) -> Need:
    return Need(slots, "sha256:1", (POOL, OTHER_POOL), without)


def room(
    hosts: Sequence[Host],
    holders: Sequence[str] = (),
    pulls: Sequence[tuple[str, str]] = (),
) -> Room:
    return Room.of(hosts, {"sha256:1": set(holders)}, set(pulls))


TWO = Slots(2, 2)
FOUR = Slots(4, 4)
ONE = Slots(1, 1)


def test_who_holds_the_image_comes_before_who_pulls_less() -> None:
    begun = room([host("a", FOUR), host("b", FOUR)], ["b"], [("b", "sha256:2")])
    assert begun.place([need(ONE)]) == ("b",)


def test_fewer_pulls_come_before_packing() -> None:
    begun = room([host("a", TWO), host("b", FOUR)], pulls=[("a", "sha256:2")])
    assert begun.place([need(ONE)]) == ("b",)


def test_the_fullest_that_fits_is_taken() -> None:
    begun = room([host("a", FOUR), host("b", FOUR, TWO), host("c", FOUR, Slots(3, 4))], "abc")
    assert begun.place([need(ONE)]) == ("b",)


def test_graphics_processors_are_kept_for_those_who_ask_for_them() -> None:
    begun = room([host("a", Slots(2, 2, 1)), host("b", FOUR)])
    assert begun.place([need(ONE)]) == ("b",)


def test_ids_break_ties() -> None:
    assert room([host("b", FOUR), host("a", FOUR)]).place([need(ONE)]) == ("a",)


def test_the_preferred_one_of_all_pools_is_taken() -> None:
    begun = room([host("a", FOUR), host("b", TWO, group="other")], "ab")
    assert begun.place([need(ONE)]) == ("b",)


def test_a_planned_pull_counts_like_a_running_one() -> None:
    begun = room([host("a", FOUR), host("b", FOUR)])
    assert begun.place([need(ONE)]) == ("a",)
    assert begun.place([need(ONE)]) == ("b",)


def test_agents_left_out_are_not_taken() -> None:
    begun = room([host("a", FOUR), host("b", FOUR)])
    assert begun.place([need(ONE, frozenset("a"))]) == ("b",)


def test_a_session_that_does_not_fit_as_a_whole_takes_nothing() -> None:
    begun = room([host("a", FOUR)])
    assert isinstance(begun.place([need(TWO), need(TWO), need(ONE)]), NoRoom)
    assert begun.place([need(FOUR)]) == ("a",)


def test_what_is_held_is_given_to_nobody_and_says_for_whom() -> None:
    begun = room([host("a", FOUR), host("b", ONE)])
    begun.hold(need(TWO), "large")
    begun.hold(need(TWO), "later")
    assert begun.place([need(ONE)]) == ("b",)
    failed = begun.place([need(ONE)])
    assert isinstance(failed, NoRoom)
    assert failed.held_for == "large"


def test_a_need_that_no_held_agent_has_room_for_waits_for_nobody() -> None:
    begun = room([host("a", FOUR, Slots(3, 3))])
    begun.hold(need(FOUR), "large")
    failed = begun.place([need(TWO)])
    assert isinstance(failed, NoRoom)
    assert failed.held_for is None


def test_an_agent_whose_slots_shrank_below_what_is_taken_takes_nothing() -> None:
    begun = room([host("a", ONE, FOUR)])
    assert isinstance(begun.place([need(Slots())]), NoRoom)


@pytest.mark.parametrize(("is_up", "cordoned"), [(False, False), (True, True)])
def test_agents_that_are_away_or_cordoned_take_nothing(is_up: bool, cordoned: bool) -> None:
    away = Host("a", "default", LINUX, is_up, cordoned, FOUR, Slots())
    assert isinstance(room([away]).place([need(ONE)]), NoRoom)
    assert not Room.empty([away]).has_for(need(ONE))


class Watched(frozenset[str]):
    """Agents left out, counting how often one is looked up: once for each place looked at."""

    looks = 0

    def __contains__(self, agent_id: object) -> bool:
        self.looks += 1
        return super().__contains__(agent_id)


@pytest.mark.parametrize("beside", [(), (need(ONE),)])
def test_what_has_no_room_is_not_looked_for_again(beside: Sequence[Need]) -> None:
    hosts = [host(f"a-{number}", FOUR) for number in range(100)]
    begun, left_out = room(hosts), Watched(each.id for each in hosts)
    asked = [need(ONE, left_out)]
    assert isinstance(begun.place(asked, beside), NoRoom)
    looks = left_out.looks
    for _ in range(100):
        assert isinstance(begun.place(asked, beside), NoRoom)
        assert not begun.admits(asked)
    assert left_out.looks == looks


def test_what_only_others_need_first_keeps_nobody_out_for_good() -> None:
    begun = room([host("a", FOUR)])
    older, younger = need(FOUR), need(ONE)
    assert isinstance(begun.place([younger], [older]), NoRoom)
    assert begun.place([younger]) == ("a",)
    assert not begun.admits([older])
    assert isinstance(begun.place([older]), NoRoom)


def test_a_sibling_that_takes_the_room_keeps_nobody_else_out() -> None:
    begun = room([host("a", FOUR)])
    first, second = need(FOUR), need(ONE)
    assert isinstance(begun.place([first, second]), NoRoom)
    assert not begun.admits([first, second])
    assert begun.place([second]) == ("a",)


figures = st.integers(0, 4)
slots = st.builds(Slots, figures, figures, figures)


@given(
    st.lists(st.tuples(slots, slots, st.booleans(), st.booleans()), max_size=8),
    st.lists(st.lists(slots, min_size=1, max_size=3), max_size=12),
)
def test_it_places_as_a_naive_scan_does(
    agents: list[tuple[Slots, Slots, bool, bool]], sessions: list[list[Slots]]
) -> None:
    hosts = [
        host(f"a-{number}", capacity, occupied, "other" if elsewhere else "default")
        for number, (capacity, occupied, _, elsewhere) in enumerate(agents)
    ]
    holders = {f"a-{number}" for number, (*_, holds, _) in enumerate(agents) if holds}
    begun = room(hosts, sorted(holders))
    shared = cache(need)  # as in a round
    free = {each.id: each.capacity - each.occupied for each in hosts}
    pulls: set[str] = set()
    for session in sessions:
        expected = _naively(free, holders, pulls, session)
        placed = begun.place([shared(asked) for asked in session])
        assert (None if isinstance(placed, NoRoom) else placed) == expected


def _naively(
    free: dict[str, Slots], holders: set[str], pulls: set[str], session: list[Slots]
) -> tuple[str, ...] | None:
    left, begins, placed = dict(free), set(pulls), []
    for asked in session:
        fitting = [agent_id for agent_id in left if asked.fits(left[agent_id])]
        if not fitting:
            return None
        best = min(
            fitting,
            key=lambda id_: (
                id_ not in holders,
                id_ in begins,
                left[id_].gpu,
                left[id_].cpu,
                left[id_].mem,
                id_,
            ),
        )
        left[best] -= asked
        if best not in holders:
            begins.add(best)
        placed.append(best)
    free.update(left)
    pulls.update(begins)
    return tuple(placed)
