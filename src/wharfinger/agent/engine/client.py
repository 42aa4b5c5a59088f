"""HTTP to one engine: time limits, streams, and every error as `EngineError`.

Every request has a connection of its own. Connections are cheap here (0.2 ms), a reused one can
die unseen between two requests, and closing it is what ends a pull in the engine.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from urllib.parse import quote

import aiohttp
from yarl import URL

from wharfinger.agent.engine.address import EngineAddress
from wharfinger.agent.engine.api_version import choose_api
from wharfinger.agent.engine.failure_texts import classify
from wharfinger.agent.engine.framing import MalformedStream
from wharfinger.agent.engine.port import EngineError, Unanswered
from wharfinger.domain.failures import Failure, FailureClass

_ERROR_BODY_LIMIT: Final = 64 * 1024

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Frames(Protocol[T_co]):
    """Finds what a byte stream is made of."""

    @property
    def unfinished(self) -> bool:
        """Whether the stream may not end here."""

    def feed(self, data: bytes) -> Sequence[T_co]:
        """What is complete with these bytes; raises `MalformedStream`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds a call may take, by what it asks. A stopped daemon accepts and never answers."""

    look: float = 10.0
    """Version, inspect, tag, a subscription."""
    list: float = 60.0
    """All images: the containerd store takes 15 ms per image."""
    containers: float = 10.0
    """All containers, which is what shows that an engine hangs: dockerd takes 1 ms."""
    read: float = 30.0
    """How long a log that is read, and not followed, may pause: dockerd reads it from a file."""
    remove: float = 120.0
    """What an image's layers or a container wrote is deleted from disk before the answer."""
    start: float = 120.0
    """Create and start: file systems are mounted, volumes filled, devices found."""
    kill: float = 30.0
    """Stop, on top of the grace: the process is killed and what it held is let go."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `body` is decoded JSON, None without one; `text` is its reason."""

    status: int
    body: Any
    text: str
    readable: bool = True
    """False when there is a body that is not JSON."""

    @classmethod
    async def read(cls, response: aiohttp.ClientResponse) -> Self:
        """Read it to its end (of an error, what a sane one needs)."""
        if response.status >= HTTPStatus.BAD_REQUEST:
            raw = await _beginning(response.content, _ERROR_BODY_LIMIT)
        else:
            raw = await response.read()
        text = raw.decode(errors="replace").strip()
        try:
            body = json.loads(text) if text else None
        except ValueError:
            return cls(response.status, None, text, readable=False)
        reason = body.get("message") if isinstance(body, dict) else None
        return cls(response.status, body, reason if isinstance(reason, str) else text)

    def required(self, subject: str = "") -> Any:
        """The body of a good answer; raises `EngineError` for another, `subject` being asked of."""
        if self.status >= HTTPStatus.BAD_REQUEST:
            raise EngineError(classify(self.text or f"HTTP {self.status}", subject))
        if not self.readable:
            raise not_understood(self.text)
        return self.body


def not_understood(text: str) -> EngineError:
    """The engine said yes, with something that says nothing: no reason to think that it holds
    nothing."""
    message = "the container engine gives an answer that cannot be read"
    return EngineError(Failure(FailureClass.ENGINE_ERROR, message, text[:200]))


async def _beginning(stream: aiohttp.StreamReader, limit: int) -> bytes:
    """The first `limit` bytes, however small the pieces they come in."""
    read = bytearray()
    while len(read) < limit and (piece := await stream.read(limit - len(read))):
        read += piece
    return bytes(read)


class EngineClient:
    """Speaks to the engine at `url`."""

    def __init__(self, url: str, limits: Limits) -> None:
        self.limits = limits
        self._url = url
        self._address = EngineAddress.parse(url)
        self._api: str | None = None
        self._exchanges: set[Exchange] = set()
        self._closed = False

    @property
    def is_local(self) -> bool:
        """Whether the engine is on this machine, as far as its address tells."""
        return self._address.socket is not None

    async def version(self) -> Any:
        """`GET /version`, unversioned; settles the API version used from now on."""
        body = (await self._ask("GET", "/version", {}, self.limits.look)).required()
        self._api = choose_api(body)
        return body

    async def ask(
        self,
        method: str,
        path: str,
        *,
        limit: float,
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Answer:
        """One call, answered within `limit` seconds whatever the status; else `EngineError`.
        `body` is sent as JSON."""
        return await self._ask(method, await self.versioned(path), query or {}, limit, body)

    def stream(
        self,
        method: str,
        path: str,
        frames: Frames[T],
        *,
        query: Mapping[str, str],
        limit: float | None,
        pause: float | None = None,
        headers: Mapping[str, str] | None = None,
        subject: str = "",
    ) -> "EngineStream[T]":
        """An answer that goes on. Its status has to come within `limit` seconds, and each piece
        within `pause` of the one before."""
        return EngineStream(self, method, path, frames, query, headers or {}, limit, pause, subject)

    async def close(self) -> None:
        """Close every connection; what is asked from now on fails."""
        self._closed = True
        for exchange in list(self._exchanges):
            await exchange.close()

    async def versioned(self, path: str) -> str:
        """The path below the API version, which is settled first where it is not."""
        if self._api is None:
            await self.version()
        return f"/v{self._api}{path}"

    def target(self, path: str, query: Mapping[str, str]) -> URL:
        """The URL of a request."""
        encoded = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())
        return URL(f"http://{self._address.host}{path}?{encoded}".rstrip("?"), encoded=True)

    def exchange(self) -> "Exchange":
        """A connection for one request; a context, closed on leaving."""
        if self._closed:
            raise EngineError(self._failure("is no longer used here", "closed"))
        return Exchange(self._address.session(), self._exchanges)

    @contextmanager
    def translated(self, what: str) -> Iterator[None]:
        """What goes wrong on the way, as `EngineError`; the API version is settled anew after it,
        since another daemon may answer next time."""
        try:
            yield
        except TimeoutError as error:
            self._api = None
            raise Unanswered(self._failure("does not answer in time", what)) from error
        except aiohttp.ClientConnectorError as error:
            self._api = None
            failure = self._failure("is not running, or not reachable", str(error))
            raise EngineError(failure) from error
        except (aiohttp.ClientError, OSError, MalformedStream) as error:
            self._api = None
            # never its repr: of some errors that holds the request's headers, so a password
            detail = f"{type(error).__name__}: {error}"
            failure = self._failure("closed the connection in the middle", detail)
            raise Unanswered(failure) from error

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str], limit: float, body: Any = None
    ) -> Answer:
        target = self.target(path, query)
        with self.translated(f"{method} {path}"):
            async with asyncio.timeout(limit), self.exchange() as exchange:
                return await Answer.read(await exchange.send(method, target, body=body))

    def _failure(self, how: str, detail: str) -> Failure:
        message = f"the container engine at {self._url} {how}"
        return Failure(FailureClass.ENGINE_ERROR, message, detail)


class Exchange:
    """One request and its response."""

    def __init__(self, session: aiohttp.ClientSession, opened: "set[Exchange]") -> None:
        self._session = session
        self._response: aiohttp.ClientResponse | None = None
        self._opened = opened
        opened.add(self)

    async def send(
        self,
        method: str,
        target: URL,
        *,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> aiohttp.ClientResponse:
        """Send it; returns when the status and the headers of the response have come."""
        self._response = await self._session.request(method, target, headers=headers, json=body)
        return self._response

    async def close(self) -> None:
        """Close the connection. Who waits for the body is woken by closing the response only."""
        if self._response is not None:
            self._response.close()
        self._opened.discard(self)
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class EngineStream(Generic[T]):
    """What an answer that goes on is made of, as it comes.

    Entering sends the request and waits for the status; leaving closes the connection. Both, and
    every step, raise `EngineError`.
    """

    def __init__(
        self,
        client: EngineClient,
        method: str,
        path: str,
        frames: Frames[T],
        query: Mapping[str, str],
        headers: Mapping[str, str],
        limit: float | None,
        pause: float | None,
        subject: str,
    ) -> None:
        self._client = client
        self._method = method
        self._path = path
        self._query = query
        self._headers = headers
        self._limit = limit
        self._pause = pause
        self._subject = subject
        self._open = AsyncExitStack()
        self._body: aiohttp.StreamReader | None = None
        self._frames = frames
        self._ready: deque[T] = deque()

    async def __aenter__(self) -> Self:
        target = self._client.target(await self._client.versioned(self._path), self._query)
        async with AsyncExitStack() as opening:
            exchange = await opening.enter_async_context(self._client.exchange())
            with self._translated():
                async with asyncio.timeout(self._limit):
                    response = await exchange.send(self._method, target, headers=self._headers)
                    if response.status >= HTTPStatus.BAD_REQUEST:
                        (await Answer.read(response)).required(self._subject)
            self._body = response.content
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        with self._translated():
            while not self._ready:
                piece = await self._piece()
                if not piece and self._frames.unfinished:
                    raise MalformedStream("the stream ended inside what had begun")
                if not piece:
                    raise StopAsyncIteration
                self._ready.extend(self._frames.feed(piece))
        return self._ready.popleft()

    async def _piece(self) -> bytes:
        """The next bytes of the body, empty at its end."""
        assert self._body is not None, "entered"
        try:
            async with asyncio.timeout(self._pause):
                return await self._body.readany()
        except RuntimeError as error:  # how aiohttp says that its session was closed meanwhile
            raise ConnectionAbortedError(str(error)) from error

    def _translated(self) -> AbstractContextManager[None]:
        return self._client.translated(f"{self._method} {self._path}")
