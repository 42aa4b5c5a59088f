"""Where an engine listens."""

import re
from dataclasses import dataclass
from typing import Self

import aiohttp

from wharfinger.domain.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """The path of a socket, or `host:port`."""

    socket: str | None
    host: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """From `unix:///path`, `/path` or `tcp://host:port`; raises `InvalidRequest`."""
        path = url.removeprefix("unix://")
        if path.startswith("/"):
            return cls(path, "localhost")
        host = url.removeprefix("tcp://").rstrip("/")
        if host != url and re.fullmatch(r"[^/@\s]+:\d+", host):
            return cls(None, host)
        raise InvalidRequest(
            f"{url!r} is not an engine's address: unix:///path, /path or tcp://host:port"
        )

    def session(self) -> aiohttp.ClientSession:
        """A session without time limits, whose connections serve one request each."""
        connector: aiohttp.BaseConnector
        if self.socket is not None:
            connector = aiohttp.UnixConnector(self.socket, force_close=True)
        else:
            connector = aiohttp.TCPConnector(force_close=True)
        return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout())
