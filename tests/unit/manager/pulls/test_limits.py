"""The limits of pulls in flight."""

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.manager.pulls.attempts import PullPlace
from wharfinger.manager.pulls.limits import Limits, Room

places = st.lists(
    st.builds(PullPlace, st.sampled_from("abc"), st.sampled_from("xy"), st.sampled_from("12345")),
    max_size=40,
)


@given(
    st.builds(Limits, st.integers(min_value=1, max_value=4), st.integers(1, 8), st.integers(1, 10)),
    places,
)
def test_room_is_taken_up_to_each_limit_and_never_beyond(
    limits: Limits, wanted: list[PullPlace]
) -> None:
    room = Room(limits, ())
    taken = set[PullPlace]()
    for place in wanted:
        free = place in taken or (
            sum(other.agent_id == place.agent_id for other in taken) < limits.per_agent
            and sum(other.registry == place.registry for other in taken) < limits.per_registry
            and len(taken) < limits.total
        )
        assert room.has(place) == free
        assert room.take(place) == free
        if free:
            taken.add(place)


def test_what_is_in_flight_already_counts() -> None:
    here = (PullPlace("a", "x", "1"), PullPlace("a", "x", "2"))
    room = Room(Limits(per_agent=2, per_registry=3, total=9), here)
    assert not room.has(PullPlace("a", "y", "3"))
    assert room.take(PullPlace("b", "x", "1"))
    assert not room.has(PullPlace("c", "x", "1"))
    assert room.has(PullPlace("c", "y", "1"))


def test_a_pull_that_runs_already_needs_no_further_place() -> None:
    here = PullPlace("a", "x", "1")
    room = Room(Limits(per_agent=1, per_registry=1, total=1), (here,))
    assert room.take(here)
    assert room.take(here)
    assert not room.has(PullPlace("a", "x", "2"))
