import asyncio

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.agent.outbox import Outbox
from wharfinger.contracts.ingest import ImagePullStarted
from wharfinger.contracts.rpc import PullOrder, PullPolicy
from wharfinger.domain.failures import Failure, FailureClass

FAILURE = Failure(FailureClass.NETWORK, "unplugged")


def order(attempt_id: str) -> PullOrder:
    return PullOrder(
        attempt_id=attempt_id,
        reference="example.org/a:v1",
        root_digest="sha256:" + "a" * 64,
        layers=(),
        policy=PullPolicy.PRELOAD,
    )


def test_events_stay_until_they_are_acknowledged() -> None:
    news = asyncio.Event()
    outbox = Outbox(news)
    outbox.started(order("t1"))
    outbox.failed(order("t1"), FAILURE)
    assert news.is_set()
    assert [event.sequence for event in outbox.pending] == [1, 2]
    outbox.acknowledge(1)
    assert [event.sequence for event in outbox.pending] == [2]
    outbox.acknowledge(0)
    assert [event.sequence for event in outbox.pending] == [2]


def test_a_large_box_forgets_the_starts_of_what_has_ended() -> None:
    outbox = Outbox(asyncio.Event(), large=3)
    outbox.started(order("ended"))
    outbox.started(order("under way"))
    outbox.failed(order("other"), FAILURE)
    outbox.failed(order("ended"), FAILURE)
    assert [(type(event) is ImagePullStarted, event.attempt_id) for event in outbox.pending] == [
        (True, "under way"),
        (False, "other"),
        (False, "ended"),
    ]


@given(st.lists(st.sampled_from(["start", "end", "acknowledge"]), max_size=40))
def test_no_end_is_ever_lost_and_sequences_only_grow(steps: list[str]) -> None:
    outbox = Outbox(asyncio.Event(), large=4)
    ends: list[str] = []
    acknowledged = 0
    for number, step in enumerate(steps):
        if step == "start":
            outbox.started(order(f"t{number}"))
        elif step == "end":
            outbox.failed(order(f"t{number}"), FAILURE)
            ends.append(f"t{number}")
        elif outbox.pending:
            acknowledged = outbox.pending[0].sequence
            kept = {event.attempt_id for event in outbox.pending[1:]}
            ends = [end for end in ends if end in kept]
            outbox.acknowledge(acknowledged)
        sequences = [event.sequence for event in outbox.pending]
        assert sequences == sorted(set(sequences))
        assert all(sequence > acknowledged for sequence in sequences)
        pending_ends = [
            event.attempt_id for event in outbox.pending if not isinstance(event, ImagePullStarted)
        ]
        assert pending_ends == ends
