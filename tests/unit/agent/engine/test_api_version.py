from typing import Any

import pytest

from wharfinger.agent.engine.api_version import choose_api
from wharfinger.agent.engine.port import EngineError
from wharfinger.domain.failures import FailureClass


@pytest.mark.parametrize(
    ("oldest", "newest", "chosen"),
    [
        ("1.12", "1.41", "1.41"),
        ("1.24", "1.51", "1.51"),
        ("1.44", "1.52", "1.51"),
        (None, "1.41", "1.41"),
    ],
)
def test_the_newest_api_both_know_is_chosen(oldest: Any, newest: Any, chosen: str) -> None:
    assert choose_api({"MinAPIVersion": oldest, "ApiVersion": newest}) == chosen


@pytest.mark.parametrize(
    "version",
    [
        {"MinAPIVersion": "1.44", "ApiVersion": "1.41"},
        {"MinAPIVersion": "1.52", "ApiVersion": "1.60"},
        {"MinAPIVersion": "1.12", "ApiVersion": "1.24"},
        {"ApiVersion": "new"},
        {},
        None,
    ],
)
def test_an_engine_with_no_api_in_common_is_unsupported(version: Any) -> None:
    with pytest.raises(EngineError) as raised:
        choose_api(version)
    assert raised.value.failure.failure_class is FailureClass.UNSUPPORTED
