import pytest
import strawberry
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.slots import MOST
from wharfinger.manager.api.graphql.inputs import KernelSpec, limit_changes, session_request

UNSET = strawberry.UNSET


@given(st.integers(1, 10_000_000))
def test_thousandths_of_a_processor_are_kept_exactly(thousandths: int) -> None:
    spec = KernelSpec(reference="x", cpu=thousandths / 1000)
    (kernel,) = session_request([spec], None, None).kernels
    assert kernel.slots.cpu == thousandths


@pytest.mark.parametrize("cpu", [0.0001, 1.0005, 0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_any_other_number_of_processors_is_refused(cpu: float) -> None:
    with pytest.raises(InvalidRequest, match="three decimals at most"):
        session_request([KernelSpec(reference="x", cpu=cpu)], None, None)


def test_an_empty_request_is_passed_on_to_who_judges_it() -> None:
    request = session_request([], None, None)
    assert (request.kernels, request.name, request.scaling_group) == ([], "", None)


def test_only_what_was_given_is_changed() -> None:
    changes = limit_changes(max_sessions=UNSET, cpu=2, mem=UNSET, gpu=None, scaling_groups=UNSET)
    assert changes.values == {"cpu": 2000, "gpu": None}


@pytest.mark.parametrize(("cpu", "thousandths"), [(0, 0), (0.0, 0), (0.5, 500), (None, None)])
def test_a_limit_of_processors_may_be_nothing_or_none(
    cpu: float | None, thousandths: int | None
) -> None:
    changes = limit_changes(max_sessions=UNSET, cpu=cpu, mem=MOST, gpu=UNSET, scaling_groups=UNSET)
    assert changes.values == {"cpu": thousandths, "mem": MOST}
