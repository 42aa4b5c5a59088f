import pytest

from wharfinger.agent.engine.address import EngineAddress
from wharfinger.domain.errors import InvalidRequest


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
