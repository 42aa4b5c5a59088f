from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.agent.engine.container_entries import (
    has_terminal,
    read_container,
    read_containers,
    read_time,
)
from wharfinger.agent.engine.port import Container

IMAGE_ID = "sha256:" + "5c" * 32
NEVER = "0001-01-01T00:00:00Z"
STARTED = "2026-11-30T23:03:38.797591592Z"
ENDED = "2026-11-30T23:03:38.902647101Z"
STARTED_AT = 1796079818.797591


def inspected(**state: Any) -> dict[str, Any]:
    facts = {"Running": False, "ExitCode": 0, "StartedAt": NEVER, "FinishedAt": NEVER, "Error": ""}
    return {
        "Id": "c1",
        "Name": "/one",
        "Image": IMAGE_ID,
        "State": {**facts, **state},
        "Config": {"Labels": {"a": "b"}, "Tty": False},
    }


def test_containers_are_listed_with_full_image_ids_and_labels() -> None:
    listing = [
        {"Id": "c1", "Names": ["/one"], "ImageID": IMAGE_ID, "State": "running", "Labels": None},
        {"Id": "c2", "Names": None, "ImageID": "5c" * 32, "Labels": {"a": "b", "odd": 1}},
        {"Id": "c3"},
    ]
    assert read_containers(listing) == [
        Container("c1", "one", IMAGE_ID, "running", {}),
        Container("c2", "", IMAGE_ID, "", {"a": "b"}),
        Container("c3", "", "", "", {}),
    ]


@pytest.mark.parametrize("says", [None, {}, "text", [None], [{"Id": "c1"}, {"Names": ["/no-id"]}]])
def test_a_listing_that_says_nothing_is_no_empty_one(says: Any) -> None:
    assert read_containers(says) is None


def test_one_that_ended_has_a_code_and_two_times() -> None:
    detail = read_container(
        inspected(Status="exited", ExitCode=3, StartedAt=STARTED, FinishedAt=ENDED, OOMKilled=True)
    )
    assert detail is not None
    assert (detail.name, detail.image_id, detail.state) == ("one", IMAGE_ID, "exited")
    assert detail.labels == {"a": "b"}
    assert detail.exit_code == 3
    assert detail.out_of_memory
    assert detail.started_at == STARTED_AT
    assert detail.ended_at == pytest.approx(STARTED_AT + 0.105, abs=0.001)


@pytest.mark.parametrize("code", [126, 127, 128])
def test_one_that_could_not_start_never_ran(code: int) -> None:
    detail = read_container(inspected(Status="created", ExitCode=code, Error="no such program"))
    assert detail is not None
    assert (detail.started_at, detail.ended_at, detail.exit_code) == (None, None, None)
    assert detail.problem == "no such program"


@pytest.mark.parametrize("state", [{"Running": True}, {"Paused": True}])
def test_one_that_was_started_again_has_not_ended(state: Any) -> None:
    detail = read_container(inspected(StartedAt=ENDED, FinishedAt=STARTED, ExitCode=1, **state))
    assert detail is not None
    assert (detail.ended_at, detail.exit_code) == (None, None)


def test_one_stuck_in_its_removal_keeps_its_code_and_says_why() -> None:
    detail = read_container(
        inspected(
            Status="dead", ExitCode=3, StartedAt=STARTED, FinishedAt=ENDED, Error="not permitted"
        )
    )
    assert detail is not None
    assert (detail.state, detail.exit_code, detail.problem) == ("dead", 3, "not permitted")


def test_no_container_ends_before_it_starts() -> None:
    detail = read_container(inspected(StartedAt=ENDED, FinishedAt=STARTED))
    assert detail is not None
    assert detail.ended_at == detail.started_at


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (STARTED, STARTED_AT),
        ("2026-11-30T23:03:38Z", 1796079818.0),
        ("2026-12-01T01:03:38.5+02:00", 1796079818.5),
        (NEVER, None),
        ("0001-01-01T00:00:00+05:00", None),
        ("2026-11-30T23:03:38", None),
        ("yesterday", None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_times_are_seconds_since_the_epoch(written: Any, seconds: float | None) -> None:
    assert read_time(written) == seconds


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Id", "Names", "State", "Config", "Labels", "StartedAt", "ExitCode"]),
            inner,
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(_json)
def test_no_answer_raises(answer: Any) -> None:
    read_containers(answer)
    read_container(answer)
    has_terminal(answer)
