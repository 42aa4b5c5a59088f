"""The index by free slots answers as a look at every place would."""

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.slots import Slots
from wharfinger.manager.scheduler.index import FreeSlots, Place

figures = st.integers(0, 6)
ids = st.integers(0, 150).map(lambda number: f"a-{number}")
places = st.builds(Place, st.integers(0, 2), figures, figures, figures, ids)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), places),
        st.tuples(st.just("remove"), places),
        st.tuples(
            st.just("first"), st.builds(Slots, figures, figures, figures), st.frozensets(ids)
        ),
    ),
    max_size=60,
)


def naive(places: set[Place], asked: Slots, without: frozenset[str]) -> Place | None:
    fitting = [
        place
        for place in places
        if asked.fits(Slots(place.cpu, place.mem, place.gpu)) and place.agent_id not in without
    ]
    return min(fitting, default=None)


@given(st.sets(places, max_size=150), changes)
def test_it_answers_as_a_naive_scan_does_whatever_changes(
    begun: set[Place], changes: list[tuple[object, ...]]
) -> None:
    index, present = FreeSlots(begun), set(begun)
    for change in changes:
        match change:
            case ("add", Place() as place) if place not in present:
                index.add(place)
                present.add(place)
            case ("remove", Place() as place) if place in present:
                index.remove(place)
                present.remove(place)
            case ("first", Slots() as asked, frozenset() as without):
                assert index.first(asked, without) == naive(present, asked, without)
            case _:
                pass
        assert list(index) == sorted(present)


def test_blocks_are_split_and_dropped_as_places_come_and_go() -> None:
    some = [Place(0, 0, number, 1, f"a-{number}") for number in range(500)]
    index = FreeSlots(())
    for place in some:
        index.add(place)
    assert index.first(Slots(cpu=321)) == some[321]
    for place in some[:499]:
        index.remove(place)
    assert index.first(Slots()) == some[499]
    index.remove(some[499])
    assert index.first(Slots()) is None
