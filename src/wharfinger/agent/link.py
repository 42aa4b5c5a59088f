"""The agent's side of the line to its manager: it registers, then reports for ever."""

import asyncio
import io
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import aiohttp
import structlog
from pydantic import ValidationError

from wharfinger.agent.backoff import Backoff
from wharfinger.agent.identity import Identity, IdentityFile
from wharfinger.agent.reports import Reporter
from wharfinger.contracts.ingest import (
    REGISTER,
    REPORT,
    Acknowledgement,
    Registered,
    Registration,
)
from wharfinger.contracts.wire import Wire
from wharfinger.domain.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    StaleIncarnation,
    Unauthenticated,
    WharfingerError,
)

log = structlog.get_logger()

POST_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 3.0
KEEP_ALIVE_SECONDS: Final = 3.0
"""Shorter than any server's (uvicorn's is 5 s): a connection is never used as it is closed."""
GATHER_SECONDS: Final = 0.05
"""News that comes in a flurry goes out in one report."""

W = TypeVar("W", bound=Wire)


class ManagerUnreachable(WharfingerError):
    """The manager did not answer, or not as a manager does."""


class Link:
    """Keeps the manager informed. Trouble on the way costs delay, and nothing is lost.

    `registered` is called with the manager's answer each time it has taken this incarnation.
    """

    def __init__(
        self,
        manager_url: str,
        *,
        identity_file: IdentityFile,
        join_token: str | None,
        registration: Callable[[], Registration],
        reporter: Reporter,
        news: asyncio.Event,
        registered: Callable[[Registered], None],
    ) -> None:
        self._manager_url = manager_url.rstrip("/")
        self._identity_file = identity_file
        self._join_token = join_token
        self._registration = registration
        self._reporter = reporter
        self._news = news
        self._registered = registered
        self._backoff = Backoff()
        self._trouble = ""
        self._platform: tuple[str, ...] = ()

    async def run(self) -> None:
        """Until cancelled, or refused for good.

        Raises `StaleIncarnation` when a newer process of this agent has registered, and the
        manager's `Forbidden` or `Conflict` when it does not take this agent (it was retired).
        """
        identity = await asyncio.to_thread(self._identity_file.load)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(keepalive_timeout=KEEP_ALIVE_SECONDS),
            timeout=aiohttp.ClientTimeout(total=POST_SECONDS, connect=CONNECT_SECONDS),
        ) as session:
            while True:
                identity = await self._register(session, identity)
                await self._report(session, identity)

    async def _register(self, session: aiohttp.ClientSession, identity: Identity) -> Identity:
        """Register until it is taken; the identity, with the credential it came with."""
        if identity.credential is None and self._join_token is None:
            raise InvalidRequest(f"agent {identity.agent_id!r} never joined: it needs a join token")
        while True:
            registration = self._registration()
            try:
                answer = await self._introduce(session, identity, registration)
            except (Unauthenticated, ManagerUnreachable) as error:
                self._failed("the manager does not let the agent register", error)
                await self._backoff.wait()
                continue
            except Forbidden as error:
                raise Forbidden(
                    f"{error.message} (the state folder is {self._identity_file.path.parent})"
                ) from error
            if answer.credential is not None:
                identity = Identity(identity.agent_id, answer.credential)
                await asyncio.to_thread(self._identity_file.save, identity)
            self._platform = _platform(registration)
            self._registered(answer)
            return identity

    async def _introduce(
        self, session: aiohttp.ClientSession, identity: Identity, registration: Registration
    ) -> Registered:
        """By the credential; where that is unknown, since the database is a new one, by the join
        token."""
        bearers = [each for each in (identity.credential, self._join_token) if each is not None]
        while True:
            try:
                return await self._post(session, REGISTER, bearers.pop(0), registration, Registered)
            except Unauthenticated:
                if not bearers:
                    raise

    async def _report(self, session: aiohttp.ClientSession, identity: Identity) -> None:
        """Report until there is a reason to register anew: the credential is refused, or an
        engine that was dead at the start turns out to be of another platform than this machine.
        """
        if identity.credential is None:
            raise Conflict("the manager let the agent join without giving it a credential")
        while self._platform == _platform(self._registration()):
            self._news.clear()
            report = self._reporter.begin()
            try:
                kept = await self._post(
                    session, REPORT, identity.credential, report, Acknowledgement
                )
            except Unauthenticated as error:
                self._failed("the manager refuses the agent's credential", error)
                await self._backoff.wait()
                return
            except Conflict as error:
                raise StaleIncarnation(error.message) from error
            except ManagerUnreachable as error:
                self._failed("the manager does not take reports", error)
                await self._backoff.wait()
                continue
            self._worked()
            self._reporter.acknowledged(kept)
            with suppress(TimeoutError):
                async with asyncio.timeout(kept.report_seconds):
                    await self._news.wait()
                    await asyncio.sleep(GATHER_SECONDS)

    async def _post(
        self,
        session: aiohttp.ClientSession,
        path: str,
        bearer: str,
        body: Wire,
        answer: type[W],
    ) -> W:
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        data = io.BytesIO(json.dumps(body.to_wire()).encode())  # sent in pieces: it may be large
        try:
            async with session.post(
                self._manager_url + path, data=data, headers=headers
            ) as response:
                text = await response.read()
                if not response.ok:
                    raise _refusal(response.status, text.decode(errors="replace"))
                return answer.model_validate_json(text)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ManagerUnreachable(
                f"{self._manager_url}: {str(error) or type(error).__name__}"
            ) from error
        except ValidationError as error:
            raise ManagerUnreachable(
                f"{self._manager_url} does not answer as a manager does: {error}"
            ) from error

    def _failed(self, what: str, error: WharfingerError) -> None:
        """Log an outage once, not at every try."""
        if self._trouble != what:
            self._trouble = what
            log.error(what, error=error.message, manager=self._manager_url)

    def _worked(self) -> None:
        self._backoff.reset()
        if self._trouble:
            self._trouble = ""
            log.info("the manager answers again", manager=self._manager_url)


def _platform(registration: Registration) -> tuple[str, ...]:
    return registration.os, registration.architecture, registration.variant


def _refusal(status: int, text: str) -> WharfingerError:
    """What the manager said no with; only its own word is final, not that of a proxy before it."""
    message = _message(text)
    if message is None:
        return ManagerUnreachable(f"HTTP status {status}: {text[:200]}")
    refusals: dict[int, type[WharfingerError]] = {
        401: Unauthenticated,
        403: Forbidden,
        409: Conflict,
    }
    return refusals.get(status, ManagerUnreachable)(message)


def _message(text: str) -> str | None:
    try:
        error: Any = json.loads(text)
        return str(error["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return None
