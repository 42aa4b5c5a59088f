"""Addresses of registries as people write them."""

import pytest

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.catalogue.addresses import HUB_URL, read_address


@pytest.mark.parametrize(
    ("text", "host", "url"),
    [
        ("http://127.0.0.1:5000", "127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("127.0.0.1:5000", "127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("localhost:5000/", "localhost:5000", "http://localhost:5000"),
        ("http://[::1]:5992", "[::1]:5992", "http://[::1]:5992"),
        ("[::1]:5992", "[::1]:5992", "http://[::1]:5992"),
        ("r.lan", "r.lan", "https://r.lan"),
        ("HTTP://R.LAN:5000/v2/", "r.lan:5000", "http://r.lan:5000"),
        ("10.0.0.1:5000", "10.0.0.1:5000", "https://10.0.0.1:5000"),
        ("docker.io", "docker.io", HUB_URL),
        ("index.docker.io", "docker.io", HUB_URL),
        ("registry-1.docker.io", "docker.io", HUB_URL),
        ("https://docker.io/v1/", "docker.io", HUB_URL),
        ("https://index.docker.io/v1/", "docker.io", HUB_URL),
        ("https://registry-1.docker.io/v1/", "docker.io", HUB_URL),
        ("https://registry-1.docker.io:443", "docker.io", HUB_URL),
    ],
)
def test_spellings_of_a_registry_become_one(text: str, host: str, url: str) -> None:
    assert read_address(text) == (host, url)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("https://", "is empty"),
        ("ftp://r.lan", "http or https"),
        ("r.lan/team", "without a path"),
        ("r.lan?x=1", "cannot go on with '?'"),
        ("registry", "a name with a '.' or a port"),
        ("r.lan:99999", "no such port"),
        ("r.lan\r", r"\r"),
        ("http://[::1]", "with its port"),
        ("hub.docker.com", "docker.io"),
        ("https://hub.docker.com/", "docker.io"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_address(text)

    assert says in caught.value.message


@pytest.mark.parametrize("text", ["https://alice:s3cret@r.lan", "alice:s3cret@r.lan/x"])
def test_a_password_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_address(text)

    assert "s3cret" not in str(caught.value.to_json())
