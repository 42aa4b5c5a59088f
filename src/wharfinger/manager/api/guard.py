"""The gate in front of all routes: the table decides before anything of the request is read."""

from collections.abc import Sequence
from typing import Final

import structlog
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wharfinger.domain.errors import Unauthenticated, UnknownId, WharfingerError
from wharfinger.manager.access.permissions import ROUTES, Ownership, Rule, require
from wharfinger.manager.access.service import Access
from wharfinger.manager.api.errors import WrongMethod, error_response

log = structlog.get_logger()

UNKNOWN_ROUTE: Final = "(unknown)"

_PATTERNS: Final = {path: compile_path(path)[0] for _, path in ROUTES}


class Guard:
    """Deny by default.

    Leaves in the request's state `principal` and `ownership` for routes that need a user, and
    `bearer` for those of agents.
    """

    def __init__(self, app: ASGIApp, *, access: Access, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._access = access
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it in, or answer why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            rule = await self._admit(scope)
        except WharfingerError as error:
            response = error_response(error, scope["state"]["request_id"])
            await response(scope, receive, send)
            return
        if rule is Rule.OWNER:
            send = _only_if_asked(scope, send)
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope) -> Rule:
        template = route_template(scope["path"])
        if template == UNKNOWN_ROUTE:
            raise self._unlisted(scope)
        method = scope["method"]
        rules = {verb: rule for (verb, path), rule in ROUTES.items() if path == template}
        # a wrong method tells nothing to those who could not use the right one
        rule = rules.get(method) or next(iter(rules.values()))
        state = scope["state"]
        bearer = _bearer(Headers(scope=scope))
        if rule is Rule.AGENT:
            if bearer is None:
                raise Unauthenticated(
                    "No token was sent: agents send a join token or their own credential",
                    needs="token",
                )
            state["bearer"] = bearer
        elif rule is not Rule.OPEN:
            state["principal"] = principal = await self._access.authenticate(bearer)
            state["ownership"] = Ownership(principal)
            require(rule, principal, f"{method} {template}")
        if method not in rules:
            raise WrongMethod(f"{template} takes {', '.join(rules)}, not {method}")
        return rule

    def _unlisted(self, scope: Scope) -> WharfingerError:
        if any(route.matches(scope)[0] is not Match.NONE for route in self._routes):
            return WharfingerError(f"the route {scope['path']} has no entry in the permissions")
        return UnknownId(f"There is nothing at {scope['path']}")


def route_template(path: str) -> str:
    """The path of the permission table that this path is one of."""
    for template, pattern in _PATTERNS.items():
        if pattern.fullmatch(path):
            return template
    return UNKNOWN_ROUTE


def _only_if_asked(scope: Scope, send: Send) -> Send:
    """A route that never asked whose the thing is must not answer with it."""

    async def checked(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:  # noqa: PLR2004
            ownership: Ownership = scope["state"]["ownership"]
            if not ownership.asked:
                raise WharfingerError(f"{scope['path']} never asked for the owner")
        await send(message)

    return checked


def _bearer(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
