"""Who may do what: one table for every HTTP route and every GraphQL root field.

What is not in the table is refused. `tests/unit/manager/api/test_permissions.py` walks the real
schema and the real routes, and fails when an entry is missing or stale.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from wharfinger.domain.errors import Forbidden
from wharfinger.manager.access.principal import Principal, Role


class Rule(StrEnum):
    """What a request must show."""

    OPEN = "open"
    """Nothing."""
    AGENT = "agent"
    """An agent's own bearer, which the fleet checks."""
    AUTHENTICATED = "authenticated"
    """A user's token."""
    OWNER = "owner"
    """A user's token, and to own the thing or to be a superadmin (`Ownership`)."""
    SUPERADMIN = "superadmin"
    """A superadmin's token."""


ROUTES: Final[Mapping[tuple[str, str], Rule]] = {
    ("GET", "/healthz"): Rule.OPEN,
    ("GET", "/readyz"): Rule.OPEN,
    ("GET", "/metrics"): Rule.AUTHENTICATED,
    ("POST", "/graphql"): Rule.AUTHENTICATED,
    ("GET", "/background-tasks"): Rule.OWNER,
    ("GET", "/sessions/{session_id}/events"): Rule.OWNER,
    ("GET", "/sessions/{session_id}/logs"): Rule.OWNER,
    ("POST", "/agents/register"): Rule.AGENT,
    ("POST", "/agents/report"): Rule.AGENT,
}
"""By method and path (as the router writes it)."""

ROOT_FIELDS: Final[Mapping[str, Rule]] = {
    "Query.viewer": Rule.AUTHENTICATED,
    "Query.agents": Rule.AUTHENTICATED,
    "Query.agent": Rule.AUTHENTICATED,
    "Query.images": Rule.AUTHENTICATED,
    "Query.tasks": Rule.OWNER,
    "Query.task": Rule.OWNER,
    "Query.sessions": Rule.OWNER,
    "Query.session": Rule.OWNER,
    "Query.registries": Rule.AUTHENTICATED,
    "Query.users": Rule.SUPERADMIN,
    "Query.tokens": Rule.OWNER,
    "Query.preloadPlan": Rule.SUPERADMIN,
    "Query.unloadPlan": Rule.SUPERADMIN,
    "Query.imageGrants": Rule.SUPERADMIN,
    "Query.auditEntries": Rule.SUPERADMIN,
    "Mutation.preloadImage": Rule.SUPERADMIN,
    "Mutation.unloadImage": Rule.SUPERADMIN,
    "Mutation.registerImage": Rule.SUPERADMIN,
    "Mutation.forgetImage": Rule.SUPERADMIN,
    "Mutation.protectImage": Rule.SUPERADMIN,
    "Mutation.unprotectImage": Rule.SUPERADMIN,
    "Mutation.rescanImages": Rule.SUPERADMIN,
    "Mutation.grantImages": Rule.SUPERADMIN,
    "Mutation.revokeImages": Rule.SUPERADMIN,
    "Mutation.changeUserGroups": Rule.SUPERADMIN,
    "Mutation.cancelTask": Rule.OWNER,
    "Mutation.createSession": Rule.AUTHENTICATED,
    "Mutation.terminateSession": Rule.OWNER,
    "Mutation.cancelSession": Rule.OWNER,
    "Mutation.forceCancelKernel": Rule.SUPERADMIN,
    "Mutation.cordonAgent": Rule.SUPERADMIN,
    "Mutation.uncordonAgent": Rule.SUPERADMIN,
    "Mutation.removeAgent": Rule.SUPERADMIN,
    "Mutation.addRegistry": Rule.SUPERADMIN,
    "Mutation.removeRegistry": Rule.SUPERADMIN,
    "Mutation.createJoinToken": Rule.SUPERADMIN,
    "Mutation.addUser": Rule.SUPERADMIN,
    "Mutation.removeUser": Rule.SUPERADMIN,
    "Mutation.setUserLimits": Rule.SUPERADMIN,
    "Mutation.createToken": Rule.OWNER,
    "Mutation.revokeToken": Rule.OWNER,
}
"""By type and field. All of `/graphql` needs a token; these come on top."""


def require(rule: Rule, principal: Principal, action: str) -> None:
    """Raise `Forbidden` unless the rule lets this user do it. Of `OWNER`, that is `Ownership`'s."""
    if rule is Rule.SUPERADMIN and not principal.is_superadmin:
        raise Forbidden(
            f"Only a superadmin may use {action}; {principal.name!r} is a {principal.role.value}",
            needs=Role.SUPERADMIN.value,
            role=principal.role.value,
        )


class Ownership:
    """What is a user's own. It remembers that it was asked, so that forgetting shows."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        self.asked = False

    def require(self, owner_id: str, thing: str) -> None:
        """Raise `Forbidden` unless the user owns it or is a superadmin."""
        self.asked = True
        if not self._principal.is_superadmin and owner_id != self._principal.user_id:
            raise Forbidden(
                f"{thing} belongs to somebody else: only its owner or a superadmin may touch it",
                needs="owner",
                role=self._principal.role.value,
            )

    def only(self) -> str | None:
        """The owner whose things a list may show; None for everybody's."""
        self.asked = True
        return None if self._principal.is_superadmin else self._principal.user_id
