import pytest

from wharfinger.contracts.wire import DETAIL_LIMIT, FailureReport
from wharfinger.domain.failures import Failure, FailureClass


@pytest.mark.parametrize("text", ["unexpected EOF", "x" * 10_000_000, "half a pair: \ud800", ""])
def test_whatever_an_engine_says_can_be_reported(text: str) -> None:
    failure = Failure(FailureClass.NETWORK, "lost", text, 2.0)
    report = FailureReport.of(failure)
    assert FailureReport.model_validate_json(report.model_dump_json()) == report
    assert len(report.detail) == min(len(text), DETAIL_LIMIT)
    assert report.failure().failure_class is FailureClass.NETWORK
    assert report.failure().retry_after == 2.0
