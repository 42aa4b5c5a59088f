"""Signing in at a registry: Basic, or Bearer tokens from the service its challenge names.

The registry chooses where a password is sent, so the realm is checked first: an https registry
has an https realm, and link-local addresses are never asked.
"""

import asyncio
import base64
import re
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from yarl import URL

from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.registry.challenge import Challenge, parse_challenges
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.failures import failure, read_json, refusal
from wharfinger.registry.transport import Answer, Transport, is_link_local

DEFAULT_LIFETIME: Final = 60.0
"""Seconds a token lives when its service does not say: the distribution specification's value."""

_TOKEN_ANSWER_LIMIT: Final = 1024 * 1024
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class _Token:
    authorization: str
    expires: float


class SignIn:
    """What to show each registry in `Authorization`, learned from its challenges.

    Kept per connection (its password included), so a changed password begins anew.
    """

    def __init__(self, transport: Transport, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._clock = clock
        self._challenges: dict[RegistryConnection, Challenge] = {}
        self._tokens: dict[tuple[RegistryConnection, str], _Token] = {}
        self._turns: defaultdict[RegistryConnection, asyncio.Lock] = defaultdict(asyncio.Lock)

    def known(self, connection: RegistryConnection, scope: str) -> str | None:
        """What this registry took before for this scope, while it lasts."""
        challenge = self._challenges.get(connection)
        if challenge is None:
            return None
        if challenge.scheme == "basic":
            return _basic(connection)
        token = self._tokens.get((connection, scope))
        return token.authorization if token and token.expires > self._clock() else None

    async def renew(
        self, connection: RegistryConnection, scope: str, refused: Answer, shown: str | None
    ) -> str | None:
        """Something better to show than `shown`, which was answered by `refused`; or None.

        Raises `FailureError` when the token service refuses, or cannot be asked.
        """
        offered = _choose(parse_challenges(refused.headers.getall("WWW-Authenticate", ())))
        challenge = offered or self._challenges.get(connection)
        if challenge is None:
            return None
        if challenge.scheme == "basic":
            self._challenges[connection] = challenge
            basic = _basic(connection)
            return basic if basic != shown else None
        async with self._turns[connection]:
            known = self.known(connection, scope)
            if known is not None and known != shown:
                return known  # another request was here first
            token = await self._fetch(connection, challenge, scope)
            self._challenges[connection] = challenge
            self._forget_expired()
            self._tokens[connection, scope] = token
            return token.authorization

    async def _fetch(
        self, connection: RegistryConnection, challenge: Challenge, scope: str
    ) -> _Token:
        realm = _realm(connection, challenge)
        asked = f"token service {challenge.realm!r} of registry {connection.host}"
        query = [("service", challenge.service)] if challenge.service else []
        query += [("scope", each) for each in (challenge.scope or scope).split()]
        answer = await self._transport.get(
            realm.extend_query(query),
            asked=asked,
            size_limit=_TOKEN_ANSWER_LIMIT,
            authorization=_basic(connection),
        )
        if answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED} and (
            connection.username is not None and connection.password is not None
        ):
            form = {
                "grant_type": "password",
                "client_id": "wharfinger",
                "username": connection.username,
                "password": connection.password,
                "service": challenge.service,
                "scope": challenge.scope or scope,
            }
            answer = await self._transport.post(
                realm, form, asked=asked, size_limit=_TOKEN_ANSWER_LIMIT
            )
        if answer.status != HTTPStatus.OK:
            raise _refused(connection, answer, realm, asked)
        return self._read(answer, asked)

    def _read(self, answer: Answer, asked: str) -> _Token:
        document = read_json(answer.body)
        fields: dict[str, Any] = document if isinstance(document, dict) else {}
        token = next(
            (
                value
                for key in ("token", "access_token")
                if isinstance(value := fields.get(key), str) and value
            ),
            None,
        )
        if token is None or not (token.isascii() and token.isprintable()):
            # what it answered is not shown: it may hold a token all the same
            raise failure(
                FailureClass.REGISTRY_ERROR,
                f"{asked}: its answer has no token; the registry's own setting is wrong",
                f"HTTP {answer.status}, {answer.headers.get('Content-Type', 'no content type')}",
            )
        lifetime = _lifetime(fields.get("expires_in"))
        return _Token(f"Bearer {token}", self._clock() + lifetime)

    def _forget_expired(self) -> None:
        now = self._clock()
        self._tokens = {key: each for key, each in self._tokens.items() if each.expires > now}


def _choose(challenges: list[Challenge]) -> Challenge | None:
    """Bearer before Basic: it shows the password to one service only."""
    for scheme in ("bearer", "basic"):
        for challenge in challenges:
            if challenge.scheme == scheme:
                return challenge
    return None


def _realm(connection: RegistryConnection, challenge: Challenge) -> URL:
    """Where the challenge wants a token asked for, when that is a place to send a password to."""
    try:
        realm = URL(challenge.realm)
        usable = realm.scheme in {"http", "https"} and bool(realm.host)
    except ValueError:
        usable = False
    if not usable:
        wrong = "is not a URL to ask" if challenge.realm else "is missing"
    elif is_link_local(realm.host or ""):
        wrong = "is a link-local address, which is never asked"
    elif connection.url.startswith("https:") and realm.scheme != "https":
        wrong = "is plain http while the registry is https: a password would travel in the open"
    elif realm.user or realm.password:
        wrong = "carries a user name or a password of its own"
    else:
        return realm
    raise failure(
        FailureClass.REGISTRY_ERROR,
        f"registry {connection.host} names {challenge.realm!r} as its token service, which {wrong};"
        " the registry's own setting is wrong",
    )


def _refused(
    connection: RegistryConnection, answer: Answer, realm: URL, asked: str
) -> FailureError:
    if (answer.url.scheme, answer.url.host, answer.url.port) != (
        realm.scheme,
        realm.host,
        realm.port,
    ):
        return failure(
            FailureClass.REGISTRY_ERROR,
            f"{asked}: it redirects to {answer.url.origin()}, where no password is sent;"
            " the registry's own setting is wrong",
            f"HTTP {answer.status}",
        )
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        who = f"user {connection.username!r}" if connection.username else "nobody without a name"
        verb = "is not" if connection.username else "is"
        return failure(
            FailureClass.AUTH,
            f"{asked}: {who} {verb} signed in",
            f"HTTP {answer.status}: {answer.body.decode(errors='replace')}",
        )
    return refusal(
        answer.status, answer.headers, answer.body, asked=asked, user=connection.username
    )


def _basic(connection: RegistryConnection) -> str | None:
    if connection.username is None or connection.password is None:
        return None
    raw = f"{connection.username}:{connection.password}".encode()
    return "Basic " + base64.b64encode(raw).decode()


def _lifetime(stated: Any) -> float:
    """Seconds, from a number or a number's text; anything else, and nothing, is the default."""
    if isinstance(stated, bool) or not isinstance(stated, int | float | str):
        return DEFAULT_LIFETIME
    text = str(stated).strip()
    seconds = float(text) if _NUMBER.fullmatch(text) else 0.0
    return seconds or DEFAULT_LIFETIME
