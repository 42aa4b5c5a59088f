"""The client of OCI registries that the manager uses: it checks connections, resolves tags, and
reads what a registry lists."""

import asyncio
import base64
import functools
import ssl
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

import stamina
from yarl import URL

from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.registry.challenge import parse_challenges
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.failures import PassingFailure, error_codes, failure, refusal
from wharfinger.registry.images import ResolvedImage
from wharfinger.registry.pages import Pages, pages
from wharfinger.registry.repository import Repository
from wharfinger.registry.resolve import resolve
from wharfinger.registry.tokens import SignIn
from wharfinger.registry.transport import Answer, Limits, Transport

_PING_LIMIT: Final = 64 * 1024
_DENIED: Final = "DENIED"


class RegistryClient:
    """Asks registries. One client serves any number of them; close it at the end.

    Every failure is a `FailureError` of one of these classes: `auth`, `not-found`,
    `rate-limited`, `network`, `registry-error`, `corrupt`, `not-an-image`, `unsupported` (beyond
    our bounds). Those that may pass within seconds were tried again already.
    """

    def __init__(self, limits: Limits | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self._limits = limits or Limits()
        self._transport = Transport(self._limits, tls)
        self._sign_in = SignIn(self._transport)
        self._large = asyncio.Semaphore(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests under way fail."""
        await self._transport.close()

    async def check(self, connection: RegistryConnection) -> None:
        """Ask the registry whether it is one and lets us in; asked once, not again.

        Without a user name a registry with tokens is taken at its word: what it lets anybody read
        shows only per repository.
        """
        asked = f"registry {connection.host}"
        with _discreet(connection):
            async with _within(self._limits.check, asked):
                answer = await self._ping(connection, asked)
            if answer is None:
                return
            if answer.status == HTTPStatus.UNAUTHORIZED:
                who = f"user {connection.username!r}" if connection.username else "an unnamed user"
                raise failure(
                    FailureClass.AUTH,
                    f"{asked} does not let {who} in: user name or password are wrong or missing",
                    answer.body.decode(errors="replace"),
                )
            if answer.status == HTTPStatus.NOT_FOUND:
                raise failure(
                    FailureClass.REGISTRY_ERROR,
                    f"{asked}: there is no registry at {connection.url}/v2/",
                )
            if answer.status != HTTPStatus.OK:
                raise _refusal(answer, connection, asked)

    async def resolve(
        self,
        reference: Reference,
        connection: RegistryConnection,
        hosts: Collection[Platform] | None = None,
    ) -> ResolvedImage:
        """What `reference` means now, down to the layers of what `hosts` would take.

        Without `hosts`, of every platform: dearer, and hubs count each manifest read.
        """
        repository = self._repository(reference, connection)
        with _discreet(connection):
            async with _within(self._limits.resolve, str(reference)):
                return await resolve(repository, reference, hosts)

    async def digest(
        self, reference: Reference, connection: RegistryConnection, known: str | None = None
    ) -> str:
        """The root digest `reference` has now, without a look at what it stands for.

        `known` is what it was before: a registry with entity tags then says that nothing changed.
        """
        name = reference.digest or reference.tag
        assert name is not None, "a reference has a tag or a digest"
        with _discreet(connection):
            async with _within(self._limits.resolve, str(reference)):
                return await self._repository(reference, connection).digest(name, known)

    def repositories(self, connection: RegistryConnection) -> Pages:
        """The names of all repositories that the registry lists, a page at a time.

        Many registries let nobody read it: `auth`, `not-found` or `registry-error`.
        """
        fetch = functools.partial(self._fetch, connection, "registry:catalog:*")
        asked = f"the catalogue of registry {connection.host}"
        return _discreetly(connection, pages(fetch, "_catalog", "repositories", asked=asked))

    def tags(self, connection: RegistryConnection, repository: str) -> Pages:
        """All tags of a repository (without its host), a page at a time."""
        fetch = functools.partial(self._fetch, connection, f"repository:{repository}:pull")
        asked = f"the tags of {connection.host}/{repository}"
        return _discreetly(connection, pages(fetch, f"{repository}/tags/list", "tags", asked=asked))

    def _repository(self, reference: Reference, connection: RegistryConnection) -> Repository:
        scope = f"repository:{reference.repository}:pull"
        return Repository(functools.partial(self._fetch, connection, scope), reference, self._large)

    async def _ping(self, connection: RegistryConnection, asked: str) -> Answer | None:
        """What the registry answers at its root, or None when it asks an unnamed user for a token."""
        url = URL(f"{connection.url}/v2/")
        if connection.username is not None:
            return await self._signed_in(
                connection, "", url, asked=asked, size_limit=_PING_LIMIT, accept="*/*"
            )
        answer = await self._transport.get(url, asked=asked, size_limit=_PING_LIMIT)
        signs_in = answer.status == HTTPStatus.UNAUTHORIZED and _offers_tokens(answer)
        return None if signs_in else answer

    async def _fetch(
        self,
        connection: RegistryConnection,
        scope: str,
        path: str,
        *,
        asked: str,
        size_limit: int,
        accept: str,
        method: str = "GET",
        unless: str | None = None,
    ) -> Answer:
        """Read one thing, trying again what may pass. The answer's status is 200, or 304 where the
        entity tag is still `unless`."""
        url = URL(f"{connection.url}/v2/{path}", encoded=True)
        async for attempt in stamina.retry_context(
            on=self._worth_another_try,
            attempts=self._limits.tries,
            timeout=self._limits.tries_seconds,
            wait_initial=self._limits.first_wait,
            wait_max=self._limits.tries_seconds,
            wait_jitter=self._limits.first_wait,
        ):
            with attempt:
                answer = await self._signed_in(
                    connection,
                    scope,
                    url,
                    asked=asked,
                    size_limit=size_limit,
                    accept=accept,
                    method=method,
                    unless=unless,
                )
                unchanged = unless is not None and answer.status == HTTPStatus.NOT_MODIFIED
                if answer.status != HTTPStatus.OK and not unchanged:
                    raise _refusal(answer, connection, asked)
                return answer
        raise AssertionError("the last try returns or raises")

    async def _signed_in(
        self,
        connection: RegistryConnection,
        scope: str,
        url: URL,
        *,
        asked: str,
        size_limit: int,
        accept: str,
        method: str = "GET",
        unless: str | None = None,
    ) -> Answer:
        """Ask with what the registry took before; once more with what its refusal asks for."""
        get = functools.partial(
            self._transport.get,
            url,
            asked=asked,
            size_limit=size_limit,
            headers={"Accept": accept} | ({"If-None-Match": unless} if unless else {}),
            method=method,
        )
        shown = self._sign_in.known(connection, scope)
        answer = await get(authorization=shown)
        if answer.status == HTTPStatus.UNAUTHORIZED or (shown and _means_expired(answer)):
            renewed = await self._sign_in.renew(connection, scope, answer, shown)
            if renewed is not None:
                answer = await get(authorization=renewed)
        return answer

    def _worth_another_try(self, error: Exception) -> bool | float:
        """Whether, or after how many seconds: the registry's own wish when it is a short one."""
        if not isinstance(error, PassingFailure):
            return False
        wait = error.failure.retry_after
        if wait is None:
            return True
        return wait if wait <= self._limits.tries_seconds else False


def _means_expired(answer: Answer) -> bool:
    """Some registries answer an expired token with 400 instead of 401."""
    return answer.status == HTTPStatus.BAD_REQUEST and _DENIED in error_codes(answer.body)


def _offers_tokens(answer: Answer) -> bool:
    challenges = parse_challenges(answer.headers.getall("WWW-Authenticate", ()))
    return any(challenge.scheme == "bearer" for challenge in challenges)


def _refusal(answer: Answer, connection: RegistryConnection, asked: str) -> FailureError:
    return refusal(
        answer.status, answer.headers, answer.body, asked=asked, user=connection.username
    )


@asynccontextmanager
async def _within(seconds: float, asked: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise failure(FailureClass.NETWORK, f"{asked}: no end within {seconds:.0f} s") from error


@contextmanager
def _discreet(connection: RegistryConnection) -> Iterator[None]:
    """Take the password out of failures: a registry may have echoed it in its answer."""
    try:
        yield
    except FailureError as error:
        secrets = _secrets(connection)
        found = error.failure
        if any(secret in found.message + found.detail for secret in secrets):
            message, detail = found.message, found.detail
            for secret in secrets:
                message, detail = message.replace(secret, "***"), detail.replace(secret, "***")
            raise type(error)(replace(found, message=message, detail=detail)) from None
        raise


async def _discreetly(connection: RegistryConnection, listed: Pages) -> Pages:
    async with aclosing(listed):
        with _discreet(connection):
            async for page in listed:
                yield page


def _secrets(connection: RegistryConnection) -> list[str]:
    if not connection.password:
        return []
    basic = base64.b64encode(f"{connection.username}:{connection.password}".encode()).decode()
    return [basic, connection.password]
