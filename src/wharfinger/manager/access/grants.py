"""Whom images are for: a path of them may be limited to users and groups.

A path is a registry (`host[:port]`) or what begins there (`host/name…`, whole segments). The
longest path with grants that covers an image decides alone; where there is none, everybody may use
it. Superadmins may use everything.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, select, update

from wharfinger.domain.errors import Conflict, InvalidReference, InvalidRequest, UnknownId
from wharfinger.domain.references import HUB, Reference, parse_host
from wharfinger.manager.access import groups as user_groups
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.storage.put import put
from wharfinger.manager.storage.tables import image_grants, users

_OFFICIAL: Final = f"{HUB}/library/"
_USER: Final = "user"
_GROUP: Final = "group"


@dataclass(frozen=True, slots=True)
class Grants:
    """Whom one path is for: names, sorted. Nobody named means that it is not limited."""

    path: str
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the interfaces show it."""
        return {"path": self.path, "users": list(self.users), "groups": list(self.groups)}

    def names(self, user: str, groups: Collection[str]) -> bool:
        """Whether this user, of these groups, is among them."""
        return user in self.users or not set(self.groups).isdisjoint(groups)


def read_path(text: str) -> str:
    """A path as it is stored, from any spelling of its host. Raises `InvalidRequest`.

    Unlike in a reference, `docker.io/grafana` is the namespace, not `docker.io/library/grafana`.
    """
    host, slash, name = text.partition("/")
    try:
        host = parse_host(host)
        if not slash:
            return HUB if host == f"index.{HUB}" else host
        if ":" in name or "@" in name:
            raise InvalidRequest("a path of images has neither tag nor digest", path=text[:255])
        reference = Reference.parse(f"{host}/{name}")
    except InvalidReference as error:
        raise InvalidRequest(
            f"{text[:255]!r} is not a path of images (host[:port] or host[:port]/name):"
            f" {error.message}",
            path=text[:255],
        ) from error
    return f"{reference.registry}/{name}"


def grant(
    conn: Connection, path: str, users_named: Collection[str], groups_named: Collection[str]
) -> Grants:
    """From now on the path (as `read_path` gives it) is for these too, and if it was not limited
    before, for these alone. Raises `UnknownId` for a user who is not there, and `InvalidRequest`.
    """
    if not users_named and not groups_named:
        raise InvalidRequest("a grant names at least one user or group")
    _require_users(conn, users_named)
    for name in groups_named:
        user_groups.check_name(name)
    for kind, subject in _subjects(users_named, groups_named):
        key = {"path": path, "kind": kind, "subject": subject}
        put(conn, image_grants, key, {})
    return _of(conn, path)


def revoke(
    conn: Connection, path: str, users_named: Collection[str], groups_named: Collection[str]
) -> Grants:
    """The path is no longer for these; with nobody named, it is no longer limited.

    Raises `UnknownId` for who was not granted it, and `Conflict` where nobody would be left: that
    would open the path to everybody, which is asked for by naming nobody.
    """
    before = _of(conn, path)
    if not before.users and not before.groups:
        raise UnknownId(f"The path {path} is not limited to anybody", id=path)
    asked = set(_subjects(users_named, groups_named))
    granted = set(_subjects(before.users, before.groups))
    if unknown := sorted(asked - granted):
        kind, subject = unknown[0]
        raise UnknownId(f"{path} was not granted to the {kind} {subject!r}", id=subject)
    if asked == granted:
        raise Conflict(
            f"{path} would be left to nobody, and so be open to everybody: grant it to others"
            " first, or revoke it without naming users and groups to open it",
            path=path,
        )
    for kind, subject in asked or granted:
        conn.execute(
            delete(image_grants).where(
                image_grants.c.path == path,
                image_grants.c.kind == kind,
                image_grants.c.subject == subject,
            )
        )
    return _of(conn, path)


def outlive(conn: Connection, name: str, user_id: str) -> None:
    """The user named so is removed. What was theirs stays closed to others, whoever is named so
    next: their grants stand under a name that nobody can have."""
    conn.execute(
        update(image_grants)
        .where(image_grants.c.kind == _USER, image_grants.c.subject == name)
        .values(subject=f"{name} (removed, {user_id})")
    )


def all_grants(conn: Connection) -> list[Grants]:
    """Every limited path, sorted."""
    return _read(conn, None)


def allow(conn: Connection, principal: Principal, name: str) -> bool:
    """Whether the user may use images of this repository (`host/name`)."""
    return allowed(conn, principal)(name)


def allowed(conn: Connection, principal: Principal) -> Callable[[str], bool]:
    """`allow` for many repositories, read once."""
    if principal.is_superadmin:
        return lambda _: True
    by_path = {each.path: each for each in all_grants(conn)}
    mine = user_groups.of_user(conn, principal.user_id)

    def may(name: str) -> bool:
        deciding = next((by_path[path] for path in _paths(name) if path in by_path), None)
        return deciding is None or deciding.names(principal.name, mine)

    return may


def _paths(name: str) -> list[str]:
    """Every path that covers a repository, the longest first.

    What people call `docker.io/nginx` is the image `docker.io/library/nginx` as well: who limits it
    means that.
    """
    segments = name.split("/")
    paths = ["/".join(segments[:count]) for count in range(len(segments), 0, -1)]
    official = name.removeprefix(_OFFICIAL)
    return paths if official == name else [paths[0], f"{HUB}/{official}", *paths[1:]]


def _of(conn: Connection, path: str) -> Grants:
    return next(iter(_read(conn, [path])), Grants(path))


def _read(conn: Connection, paths: Sequence[str] | None) -> list[Grants]:
    query = select(image_grants).order_by(image_grants.c.path, image_grants.c.subject)
    if paths is not None:
        query = query.where(image_grants.c.path.in_(paths))
    found: defaultdict[str, dict[str, list[str]]] = defaultdict(lambda: {_USER: [], _GROUP: []})
    for row in conn.execute(query):
        found[row.path][row.kind].append(row.subject)
    return [
        Grants(path, tuple(kinds[_USER]), tuple(kinds[_GROUP])) for path, kinds in found.items()
    ]


def _subjects(users_named: Collection[str], groups_named: Collection[str]) -> list[tuple[str, str]]:
    return [(_USER, name) for name in users_named] + [(_GROUP, name) for name in groups_named]


def _require_users(conn: Connection, names: Collection[str]) -> None:
    there = set(conn.scalars(select(users.c.name).where(users.c.name.in_(names))))
    for name in names:
        if name not in there:
            raise UnknownId(f"There is no user {name!r}", id=name)
