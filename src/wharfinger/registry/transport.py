"""GET with every bound a stranger's answer needs: time, size, redirects, and who sees a password.

Nothing here knows the distribution specification. Whatever aiohttp raises leaves as a
`FailureError`, translated once.
"""

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy
from yarl import URL

from wharfinger import __version__
from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.registry.failures import failure, passing

REQUEST_LIMIT: Final = 10
"""Requests for one answer, redirects included."""

_ERROR_BODY_LIMIT: Final = 64 * 1024
_PIECE: Final = 64 * 1024
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds. `read` is between two pieces of an answer, `request` for one answer,
    `resolve` for everything one reference needs, `check` for a look at a registry. `tries`, within `tries_seconds`, are made of a
    request whose failure may pass, the second after about `first_wait`."""

    connect: float = 5.0
    read: float = 10.0
    request: float = 30.0
    resolve: float = 60.0
    check: float = 5.0
    tries: int = 3
    tries_seconds: float = 10.0
    first_wait: float = 0.3


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, decoded (gzip) and whole. `url` is where it came from after redirects."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    url: URL


class Transport:
    """Connections to registries and token services. Opened at the first request; close it."""

    def __init__(self, limits: Limits, tls: ssl.SSLContext | None = None) -> None:
        self._limits = limits
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(
        self,
        url: URL,
        *,
        asked: str,
        size_limit: int,
        headers: Mapping[str, str] | None = None,
        authorization: str | None = None,
        method: str = "GET",
    ) -> Answer:
        """Follow redirects to an answer. `authorization` stays with the origin of `url`; `method`
        is GET or HEAD.

        Raises `network`, or `registry-error` for endless or senseless redirects, or `unsupported`
        for an answer of status 200 beyond `size_limit` bytes.
        """
        trusted = True
        origin = _origin(url)
        for _ in range(REQUEST_LIMIT):
            trusted = trusted and _origin(url) == origin
            sent = dict(headers or {})
            if authorization and trusted:
                sent["Authorization"] = authorization
            answer = await self._once(method, url, sent, None, asked, size_limit)
            if answer.status not in _REDIRECTS:
                return answer
            url = _target(answer, asked)
        raise failure(
            FailureClass.REGISTRY_ERROR,
            f"{asked}: the registry redirects in circles, given up after {REQUEST_LIMIT} requests",
            f"last: {url}",
        )

    async def post(
        self, url: URL, form: Mapping[str, str], *, asked: str, size_limit: int
    ) -> Answer:
        """Post a form; redirects are not followed."""
        return await self._once("POST", url, {}, form, asked, size_limit)

    async def _once(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        form: Mapping[str, str] | None,
        asked: str,
        size_limit: int,
    ) -> Answer:
        if url.host and is_link_local(url.host):
            raise failure(
                FailureClass.REGISTRY_ERROR,
                f"{asked}: {url.host} is a link-local address, which is never asked",
            )
        try:
            async with self._opened().request(
                method, url, headers=headers, data=form, allow_redirects=False
            ) as response:
                body = await _read(response, asked, size_limit)
                return Answer(response.status, response.headers, body, response.url)
        except TimeoutError as error:
            raise passing(
                FailureClass.NETWORK,
                f"{asked}: no answer in time from {url.host}:{url.port}",
                str(error),
            ) from error
        except aiohttp.ClientSSLError as error:
            raise failure(
                FailureClass.NETWORK,
                f"{asked}: no trusted TLS connection to {url.host}:{url.port}",
                str(error),
            ) from error
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError) as error:
            raise passing(
                FailureClass.NETWORK,
                f"{asked}: {url.host}:{url.port} cannot be reached or broke off",
                str(error) or type(error).__name__,
            ) from error
        except (aiohttp.ClientError, ValueError) as error:
            raise failure(
                FailureClass.REGISTRY_ERROR,
                f"{asked}: {url.host}:{url.port} does not speak HTTP as it should",
                str(error) or type(error).__name__,
            ) from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=64,
                limit_per_host=8,
                resolver=_OrdinaryAddresses(),
                ssl=self._tls if self._tls is not None else True,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=self._limits.request,
                    sock_connect=self._limits.connect,
                    sock_read=self._limits.read,
                ),
                headers={
                    "User-Agent": f"wharfinger/{__version__}",
                    "Accept-Encoding": "identity",
                },
            )
        return self._session


def is_link_local(host: str) -> bool:
    """Whether this is an address of the link itself, where clouds keep their machines' secrets."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_link_local


class _OrdinaryAddresses(AbstractResolver):
    """Resolves names, but never to a link-local address."""

    def __init__(self) -> None:
        self._inner = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        ordinary = [each for each in found if not is_link_local(each["host"])]
        if not ordinary:
            raise OSError(f"{host} has link-local addresses only, which are never asked")
        return ordinary

    async def close(self) -> None:
        await self._inner.close()


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


def _target(answer: Answer, asked: str) -> URL:
    location = answer.headers.get("Location", "")
    try:
        url = answer.url.join(URL(location, encoded=True))
        sensible = bool(location and url.host and url.port) and url.scheme in {"http", "https"}
    except ValueError:
        sensible = False
    if not sensible or (answer.url.scheme == "https" and url.scheme != "https"):
        raise failure(
            FailureClass.REGISTRY_ERROR,
            f"{asked}: the registry redirects to {location!r}, which is not followed",
            f"HTTP {answer.status} from {answer.url}",
        )
    return url


async def _read(response: aiohttp.ClientResponse, asked: str, size_limit: int) -> bytes:
    if response.status in _REDIRECTS:
        return b""
    wanted = response.status == 200  # noqa: PLR2004
    limit = size_limit if wanted else _ERROR_BODY_LIMIT
    body = bytearray()
    async for piece in response.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > limit:
            if not wanted:
                break
            raise _too_large(response, asked, limit)
    return bytes(body[:limit])


def _too_large(response: aiohttp.ClientResponse, asked: str, limit: int) -> FailureError:
    stated = response.content_length
    size = f"{stated:,} bytes" if stated and stated > limit else f"more than {limit:,} bytes"
    return failure(
        FailureClass.UNSUPPORTED,
        f"{asked}: the registry's answer has {size}; at most {limit:,} are read",
        str(response.url.with_query(None)),
    )
