"""One HTTP session with a manager: GraphQL calls and event streams, errors translated."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from wharfinger.client.connection import Connection
from wharfinger.client.errors import ConnectionLost, NotAManager, RemoteError, ServerUnreachable
from wharfinger.client.sse import Event, EventTooLong, Parser
from wharfinger.domain.errors import Forbidden

CONNECT_SECONDS: Final = 10.0
CALL_SECONDS: Final = 60.0
"""A preload's references are resolved at their registries before it is answered."""
SILENCE_SECONDS: Final = 60.0
"""A stream with nothing to tell sends a comment far more often than that."""
RETRY_DELAYS: Final = (0.2, 1.0)
ALIVE_SECONDS: Final = 1.0

_PROBES: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)

_AWAY: Final = frozenset({502, 503, 504})
"""What a proxy says in place of a manager."""
_NOT_READY: Final = frozenset({503})
"""What a manager says itself while it starts, stops or has no database."""
_NOT_ALLOWED: Final = frozenset({401, 403})


class Client:
    """A session with one manager; an async context manager.

    Everything raises `RemoteError` for what the manager says and `ServerUnreachable` for what it
    does not say in time.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        token = self.connection.token
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            # below the five seconds after which servers close what is idle
            connector=aiohttp.TCPConnector(keepalive_timeout=2, socket_factory=_probed),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def query(self, document: str, **variables: Any) -> dict[str, Any]:
        """The `data` of a GraphQL query; tried again when the connection is lost meanwhile."""
        for delay in RETRY_DELAYS:
            try:
                return await self._call(document, variables)
            except ConnectionLost:
                await asyncio.sleep(delay)
        return await self._call(document, variables)

    async def mutate(self, document: str, **variables: Any) -> dict[str, Any]:
        """The `data` of a GraphQL mutation; sent once."""
        return await self._call(document, variables)

    @asynccontextmanager
    async def events(
        self, path: str, parameters: dict[str, str], *, last_event_id: str = ""
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """The events of the stream at `path`, until the manager ends it.

        Entered once the manager has agreed to the stream.
        """
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last_event_id:
            headers["Last-Event-ID"] = last_event_id
        async with self._stream(path, parameters, headers, SILENCE_SECONDS) as response:
            if response.content_type != "text/event-stream":
                raise NotAManager(self.connection.url, f"{path} is no event stream")
            yield self._events(response)

    @asynccontextmanager
    async def content(
        self, path: str, parameters: dict[str, str]
    ) -> AsyncIterator[tuple[Mapping[str, str], AsyncIterator[bytes]]]:
        """The headers of what is at `path`, and its bytes as they come.

        They may be silent for ever; a host that is gone is noticed by the connection itself.
        """
        async with self._stream(path, parameters, {}, None) as response:
            yield response.headers, self._bytes(response)

    @asynccontextmanager
    async def _stream(
        self,
        path: str,
        parameters: dict[str, str],
        headers: dict[str, str],
        silence: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        with self._translated():
            response = await self._open.get(
                self.connection.url + path,
                params=parameters,
                headers=headers,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=CONNECT_SECONDS, sock_read=silence
                ),
                allow_redirects=False,
            )
        try:
            if response.status != HTTPStatus.OK:
                with self._translated():
                    body = await response.read()
                raise self._refusal(response.status, body)
            yield response
        finally:
            response.close()

    async def _bytes(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        with self._translated():
            async for chunk in response.content.iter_any():
                yield chunk

    async def _events(self, response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
        parser = Parser()
        with self._translated():
            async for chunk in response.content.iter_any():
                for event in parser.feed(chunk):
                    yield event

    async def _call(self, document: str, variables: dict[str, Any]) -> dict[str, Any]:
        limit = aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
        with self._translated():
            async with self._open.post(
                self.connection.url + "/graphql",
                json={"query": document, "variables": variables},
                timeout=limit,
                allow_redirects=False,
            ) as response:
                status, body = response.status, await response.read()
        answer = _parsed(body)
        match answer:
            case {"errors": [dict(error), *_]}:
                raise _graphql_error(error)
            case {"data": dict(data)} if status == HTTPStatus.OK:
                return data
        raise self._refusal(status, body)

    def _refusal(self, status: int, body: bytes) -> RemoteError | ServerUnreachable:
        url = self.connection.url
        answer = _parsed(body)
        named = RemoteError.from_json(answer.get("error") if isinstance(answer, dict) else None)
        if named is not None and status not in _NOT_READY:
            return named
        if status in _AWAY:
            return ConnectionLost(f"the manager at {url} is not ready (HTTP {status})")
        why = f"it answered HTTP {status}, and not in the way of one"
        if status in _NOT_ALLOWED:
            return RemoteError(Forbidden.code, f"is {url} a Wharfinger manager? {why}")
        return NotAManager(url, why)

    @property
    def _open(self) -> aiohttp.ClientSession:
        assert self._session is not None, "use the client in an `async with`"
        return self._session

    @contextmanager
    def _translated(self) -> Iterator[None]:
        url = self.connection.url
        try:
            yield
        except aiohttp.ClientConnectorError as error:
            file = self.connection.file
            source = f" (the URL is from {file})" if file else ""
            raise ServerUnreachable(
                f"no manager is reachable at {url}{source}: {error.strerror}"
            ) from error
        except TimeoutError as error:
            raise ServerUnreachable(f"the manager at {url} does not answer in time") from error
        except EventTooLong as error:
            raise NotAManager(url, f"its stream holds {error}") from error
        except aiohttp.ClientResponseError as error:
            raise NotAManager(
                url, f"it does not speak HTTP as it should ({error.message})"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(
                f"the connection to the manager at {url} broke", raw=str(error)
            ) from error


async def is_alive(url: str) -> bool:
    """Whether a manager answers at `url` within a second."""
    limit = aiohttp.ClientTimeout(total=ALIVE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(url + "/healthz", allow_redirects=False) as answer,
        ):
            return answer.status == HTTPStatus.OK
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


def _probed(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within a minute when the other host is gone."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    for level, option, value in _PROBES:
        made.setsockopt(level, option, value)
    return made


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _graphql_error(error: dict[str, Any]) -> RemoteError:
    extensions = error.get("extensions")
    named = extensions if isinstance(extensions, dict) else {}
    return RemoteError(
        str(named.get("class", "internal")), str(error.get("message", error)), named.get("detail")
    )
