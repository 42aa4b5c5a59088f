from typing import Any

import pytest

from wharfinger.agent.engine.client import EngineAddress, choose_api
from wharfinger.agent.engine.port import EngineError
from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.failures import FailureClass


@pytest.mark.parametrize(
    ("url", "socket", "host"),
    [
        ("unix:///run/docker.sock", "/run/docker.sock", "localhost"),
        ("/run/docker.sock", "/run/docker.sock", "localhost"),
        ("tcp://10.0.0.5:2375", None, "10.0.0.5:2375"),
        ("tcp://[::1]:2375/", None, "[::1]:2375"),
    ],
)
def test_addresses_are_read(url: str, socket: str | None, host: str) -> None:
    assert EngineAddress.parse(url) == EngineAddress(socket, host)


@pytest.mark.parametrize(
    "url", ["", "docker.sock", "unix://docker.sock", "tcp://host", "ssh://host:22", "host:2375"]
)
def test_other_addresses_are_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(InvalidRequest, match="unix:///path, /path or tcp://host:port"):
        EngineAddress.parse(url)


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
