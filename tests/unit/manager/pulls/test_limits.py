"""The limits of pulls in flight."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.manager.pulls.limits import Limits, Room

places = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=40)


@given(
    st.builds(Limits, st.integers(min_value=1, max_value=4), st.integers(1, 8), st.integers(1, 10)),
    places,
)
def test_room_is_taken_up_to_each_limit_and_never_beyond(
    limits: Limits, wanted: list[tuple[str, str]]
) -> None:
    room = Room(limits, Counter())
    taken = Counter[tuple[str, str]]()
    for agent_id, registry in wanted:
        of_agent = sum(n for (agent, _), n in taken.items() if agent == agent_id)
        of_registry = sum(n for (_, host), n in taken.items() if host == registry)
        free = (
            of_agent < limits.per_agent
            and of_registry < limits.per_registry
            and taken.total() < limits.total
        )
        assert room.has(agent_id, registry) == free
        assert room.take(agent_id, registry) == free
        if free:
            taken[agent_id, registry] += 1


def test_what_is_in_flight_already_counts() -> None:
    room = Room(Limits(per_agent=2, per_registry=3, total=9), Counter({("a", "x"): 2}))
    assert not room.has("a", "y")
    assert room.take("b", "x")
    assert not room.has("c", "x")
    assert room.has("c", "y")
