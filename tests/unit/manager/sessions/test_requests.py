"""What is refused of a session before anything is looked up."""

from dataclasses import replace
from typing import Any

import pytest

from wharfinger.domain.errors import InvalidReference, InvalidRequest
from wharfinger.domain.slots import Slots
from wharfinger.manager.sessions.requests import (
    MOST_BYTES,
    MOST_KERNELS,
    MOST_WORDS,
    KernelRequest,
    SessionRequest,
    check,
)

GOOD = KernelRequest("h.test/image:v1", Slots(1000, 2**20), ("sh", "-c", "true"), {"A": "b=c"})


def test_references_come_in_the_order_of_the_kernels() -> None:
    other = replace(GOOD, reference="busybox")
    assert [str(each) for each in check(SessionRequest([GOOD, other], "a.b-c_1"))] == [
        "h.test/image:v1",
        "docker.io/library/busybox:latest",
    ]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("slots", {"slots": Slots(0, 1)}),
        ("slots", {"slots": Slots(1, 0)}),
        ("slots", {"slots": Slots(1, 1, -1)}),
        ("slots", {"slots": Slots(2**53, 1)}),
        ("command", {"command": ["a\0b"]}),
        ("command", {"command": ["\ud800"]}),
        ("command", {"command": ["x"] * (MOST_WORDS + 1)}),
        ("command", {"command": ["x" * (MOST_BYTES + 1)]}),
        ("environment", {"environment": {"": "x"}}),
        ("environment", {"environment": {"A=B": "x"}}),
        ("environment", {"environment": {"A\0": "x"}}),
        ("environment", {"environment": {"A": "\0"}}),
        ("environment", {"environment": {"A": "x" * MOST_BYTES}}),
    ],
)
def test_a_refusal_names_the_kernel_and_the_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(SessionRequest([GOOD, replace(GOOD, **wrong)]))
    assert refused.value.detail == {"kernel": 1, "field": field}


def test_a_wrong_reference_names_its_kernel() -> None:
    with pytest.raises(InvalidReference) as refused:
        check(SessionRequest([GOOD, replace(GOOD, reference="UPPER/case")]))
    assert refused.value.detail["kernel"] == 1


@pytest.mark.parametrize("count", [0, MOST_KERNELS + 1])
def test_a_session_has_one_kernel_at_least_and_not_too_many(count: int) -> None:
    with pytest.raises(InvalidRequest, match="kernels"):
        check(SessionRequest([GOOD] * count))


@pytest.mark.parametrize("name", ["-a", "a b", "ä", "a" * 65, "a\n"])
def test_a_name_has_few_characters(name: str) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        check(SessionRequest([GOOD], name))
