"""Reading the address of a registry as people write it."""

import ipaddress
from typing import Final

from wharfinger.domain.errors import InvalidReference, InvalidRequest
from wharfinger.domain.references import HUB, parse_host

HUB_URL: Final = "https://registry-1.docker.io"
"""Where the Docker Hub is asked, whichever of its names is given."""

HUB_NAMES: Final = frozenset({HUB, "index.docker.io", "registry-1.docker.io"})
"""What people call it where a registry is to be named."""

_HUB_PAGES: Final = frozenset({"hub.docker.com", "www.docker.com", "docker.com", "www.docker.io"})
_API_ROOTS: Final = frozenset({"", "v1", "v2"})
"""What may stand after the host: tools write `https://index.docker.io/v1/` for a registry."""


def read_address(text: str) -> tuple[str, str]:
    """(`host[:port]` as references name it, `scheme://host[:port]` where it is asked).

    Without a scheme it is https, or http on loopback. Raises `InvalidRequest`; its message never
    repeats a password that was written into the address.
    """
    scheme, separator, rest = text.rpartition("://")
    if "@" in rest:
        raise InvalidRequest(
            "an address holds no user name and no password: give them as options of their own"
        )
    scheme = scheme.lower() if separator else ""
    if separator and scheme not in {"http", "https"}:
        raise InvalidRequest(f"a registry is asked by http or https, not by {scheme[:40]!r}")
    authority, _, path = rest.partition("/")
    if path.strip("/") not in _API_ROOTS:
        raise InvalidRequest(
            f"a registry is a host, without a path: {authority[:255]!r}, not {rest[:255]!r}"
        )
    host = _host(authority)
    if host.removesuffix(":443") in HUB_NAMES:
        return HUB, HUB_URL
    if host in _HUB_PAGES:
        raise InvalidRequest(f"{host} is a web site; the registry of the Docker Hub is {HUB}")
    if not scheme:
        scheme = "http" if _is_loopback(host) else "https"
    return host, f"{scheme}://{host}"


def _host(authority: str) -> str:
    try:
        return parse_host(authority)
    except InvalidReference as error:
        raise InvalidRequest(error.message, position=error.detail["position"]) from error


def _is_loopback(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
