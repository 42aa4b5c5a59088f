"""What a command line asks for a session, and for a user's limits."""

import click
import pytest

from wharfinger.cli.create import environment, kernel_spec
from wharfinger.cli.limits import _groups, _limit, _whole, used
from wharfinger.client.shapes import KernelSpec, Viewer
from wharfinger.domain.errors import InvalidReference, InvalidRequest


def spec(reference: str = "r/app:v1", cpu: str = "1", mem: str = "1g") -> KernelSpec:
    return kernel_spec(reference, cpu=cpu, mem=mem, gpu=0, variables=(), command=())


def test_slots_are_read_as_people_write_them() -> None:
    made = spec(cpu="250m", mem="1.5g")
    assert (made["cpu"], made["mem"]) == (0.25, 3 * 2**29)
    assert spec(cpu="2")["cpu"] == 2.0


@pytest.mark.parametrize("wrong", [{"cpu": "0"}, {"cpu": "many"}, {"mem": "4x"}, {"mem": "0"}])
def test_slots_that_are_none_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        spec(**wrong)


def test_what_is_no_reference_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(InvalidReference):
        spec("Not A Reference")


def test_variables_are_given_or_taken() -> None:
    made = environment(["A=1=2", "HOME", "B=", "A=3"], {"HOME": "/here"})
    assert made == [
        {"name": "A", "value": "3"},
        {"name": "HOME", "value": "/here"},
        {"name": "B", "value": ""},
    ]


@pytest.mark.parametrize("text", ["=1", "UNSET"])
def test_a_variable_without_a_name_or_a_value_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="--env"):
        environment([text], {})


def test_a_limit_is_a_number_or_none() -> None:
    assert _limit("none", _whole) is None
    assert _limit("0", _whole) == 0
    for wrong in ("-1", "1.5", "ten", "\u0663"):
        with pytest.raises(InvalidRequest, match="none"):
            _limit(wrong, _whole)


def test_scaling_groups_are_named_or_all() -> None:
    assert _groups("all") is None
    assert _groups("gpu, cpu,gpu") == ["gpu", "cpu"]


def test_what_is_used_is_told_with_its_limit() -> None:
    user: Viewer = {
        "id": "u1",
        "name": "ada",
        "role": "user",
        "limits": {"sessions": 10, "cpu": 16.0, "mem": None, "gpu": 2},
        "scalingGroups": None,
        "occupied": {"sessions": 2, "cpu": 0.5, "mem": 2**30, "gpu": 0},
    }
    assert used(user) == "sessions 2/10, cpu 0.5/16, mem 1.0 GiB/no limit, gpu 0/2"
