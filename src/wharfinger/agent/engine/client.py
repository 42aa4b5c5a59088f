"""HTTP to one engine: addresses, the API version, time limits, errors.

Every request has a connection of its own. Connections are cheap here (0.2 ms), a reused one can
die unseen between two requests, and closing it is what ends a pull in the engine.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp
from yarl import URL

from wharfinger.agent.engine.failure_texts import classify
from wharfinger.agent.engine.framing import JsonFrames, MalformedStream
from wharfinger.agent.engine.port import EngineError
from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.failures import Failure, FailureClass

OLDEST_API: Final = (1, 40)
NEWEST_API: Final = (1, 51)
"""The versions of the Docker API this adapter is written for: Docker 19.03 to 28."""

_ERROR_BODY_LIMIT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds a call may take, by what it asks. A stopped daemon accepts and never answers."""

    look: float = 10.0
    """Version, inspect, tag, a subscription."""
    list: float = 60.0
    """All images or containers: the containerd store takes 15 ms per image."""
    remove: float = 120.0
    """An image's layers are deleted from disk before the answer."""


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine listens: the path of a socket, or `host:port`."""

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

    def connector(self) -> aiohttp.BaseConnector:
        """Connections that are closed after one request."""
        if self.socket is not None:
            return aiohttp.UnixConnector(self.socket, force_close=True, limit=0)
        return aiohttp.TCPConnector(force_close=True, limit=0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `body` is decoded JSON, None where it is none; `text` is its reason."""

    status: int
    body: Any
    text: str

    @property
    def ok(self) -> bool:
        """Whether the engine did it."""
        return self.status < HTTPStatus.BAD_REQUEST

    def required(self, subject: str = "") -> Any:
        """The body of a good answer; raises `EngineError` for another, `subject` being asked for."""
        if self.ok:
            return self.body
        raise EngineError(classify(self.text or f"HTTP {self.status}", subject))


class EngineClient:
    """Speaks to the engine at `url`."""

    def __init__(self, url: str, limits: Limits) -> None:
        self.limits = limits
        self._url = url
        self._address = EngineAddress.parse(url)
        self._api: str | None = None
        self._sessions: set[aiohttp.ClientSession] = set()
        self._closed = False

    async def version(self) -> Any:
        """`GET /version`, unversioned; settles the API version used from now on.

        Raises `EngineError` of class `unsupported` when there is no version both know.
        """
        answer = await self._ask("GET", "/version", {}, self.limits.look)
        body = answer.required()
        self._api = choose_api(body)
        return body

    async def ask(
        self,
        method: str,
        path: str,
        *,
        limit: float,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """One call, answered within `limit` seconds whatever the status; else `EngineError`."""
        return await self._ask(method, await self._versioned(path), query or {}, limit)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        limit: float | None,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        subject: str = "",
    ) -> AsyncIterator[AsyncIterator[Any]]:
        """The JSON objects of an answer that goes on, once its status has come (within `limit`).

        Raises `EngineError`, also while iterating. Leaving closes the connection.
        """
        versioned = await self._versioned(path)
        async with self._session() as session:
            with self._translated(method, path):
                async with asyncio.timeout(limit):
                    response = await session.request(
                        method, self._target(versioned, query), headers=headers
                    )
                    if response.status >= HTTPStatus.BAD_REQUEST:
                        (await _answer(response)).required(subject)
            async with aclosing(self._objects(method, path, response)) as objects:
                yield objects

    async def close(self) -> None:
        """Close every connection; what is asked from now on fails."""
        self._closed = True
        for session in list(self._sessions):
            await session.close()

    async def _ask(self, method: str, path: str, query: Mapping[str, str], limit: float) -> Answer:
        with self._translated(method, path):
            async with asyncio.timeout(limit), self._session() as session:
                response = await session.request(method, self._target(path, query))
                return await _answer(response)

    async def _versioned(self, path: str) -> str:
        if self._api is None:
            await self.version()
        return f"/v{self._api}{path}"

    def _target(self, path: str, query: Mapping[str, str]) -> URL:
        encoded = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())
        return URL(f"http://{self._address.host}{path}?{encoded}".rstrip("?"), encoded=True)

    async def _objects(
        self, method: str, path: str, response: aiohttp.ClientResponse
    ) -> AsyncGenerator[Any, None]:
        frames = JsonFrames()
        with self._translated(method, path), closing(response):
            while piece := await _piece(response):
                for found in frames.feed(piece):
                    yield found
            if frames.unfinished:
                raise MalformedStream("the stream ended inside an object")

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        if self._closed:
            raise self._failed("is no longer used here", "closed")
        session = aiohttp.ClientSession(
            connector=self._address.connector(), timeout=aiohttp.ClientTimeout()
        )
        self._sessions.add(session)
        try:
            yield session
        finally:
            self._sessions.discard(session)
            await session.close()

    @contextmanager
    def _translated(self, method: str, path: str) -> Iterator[None]:
        """What goes wrong on the way, as `EngineError`; the version is settled anew after it,
        since another daemon may answer next time."""
        try:
            yield
        except TimeoutError as error:
            self._api = None
            raise self._failed("does not answer in time", f"{method} {path}") from error
        except aiohttp.ClientConnectorError as error:
            self._api = None
            raise self._failed("is not running, or not reachable", str(error)) from error
        except (aiohttp.ClientError, OSError, MalformedStream) as error:
            self._api = None
            raise self._failed("closed the connection in the middle", repr(error)) from error

    def _failed(self, how: str, detail: str) -> EngineError:
        message = f"the container engine at {self._url} {how}"
        return EngineError(Failure(FailureClass.ENGINE_ERROR, message, detail))


def choose_api(version: Any) -> str:
    """The newest API version both sides know, from the answer to `GET /version`."""
    body = version if isinstance(version, dict) else {}
    newest = _numbers(body.get("ApiVersion"))
    oldest = _numbers(body.get("MinAPIVersion")) or OLDEST_API
    if newest is None:
        raise _unsupported("names no API version", str(version)[:200])
    chosen = min(newest, NEWEST_API)
    if chosen < max(oldest, OLDEST_API):
        raise _unsupported(
            f"speaks API {_dotted(oldest)} to {_dotted(newest)}; "
            f"needed is one of {_dotted(OLDEST_API)} to {_dotted(NEWEST_API)}",
            str(body.get("Version", "")),
        )
    return _dotted(chosen)


def _unsupported(how: str, detail: str) -> EngineError:
    return EngineError(Failure(FailureClass.UNSUPPORTED, f"the container engine {how}", detail))


def _numbers(text: Any) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text) if isinstance(text, str) else None
    return (int(found[1]), int(found[2])) if found else None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


async def _piece(response: aiohttp.ClientResponse) -> bytes:
    """The next bytes of the body, empty at its end."""
    try:
        return await response.content.readany()
    except RuntimeError as error:  # how aiohttp says that its session was closed meanwhile
        raise ConnectionAbortedError(str(error)) from error


async def _answer(response: aiohttp.ClientResponse) -> Answer:
    if response.status >= HTTPStatus.BAD_REQUEST:
        raw = await response.content.read(_ERROR_BODY_LIMIT)
    else:
        raw = await response.read()
    text = raw.decode(errors="replace").strip()
    try:
        body = json.loads(text) if text else None
    except ValueError:
        body = None
    reason = body.get("message") if isinstance(body, dict) else None
    return Answer(response.status, body, reason if isinstance(reason, str) else text)
