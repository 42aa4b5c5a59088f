"""What a user may occupy, and what they occupy now."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, select, update

from wharfinger.domain.errors import InvalidRequest, UnknownId
from wharfinger.domain.slots import MOST, Quota, Slots
from wharfinger.manager.sessions import occupancy
from wharfinger.manager.storage.tables import users

_MOST_SESSIONS: Final = 2**31 - 1
_LONGEST_GROUP: Final = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """At most; None is no limit. `scaling_groups` are those the user may use, None for all."""

    sessions: int | None = None
    slots: Quota = field(default_factory=Quota)
    scaling_groups: tuple[str, ...] | None = None

    @classmethod
    def of(cls, row: Row[Any]) -> "Limits":
        """From a row of users."""
        groups = row.scaling_groups
        return cls(
            row.max_sessions,
            Quota(row.max_cpu, row.max_mem, row.max_gpu),
            None if groups is None else tuple(groups),
        )


@dataclass(frozen=True, slots=True)
class Occupied:
    """Sessions that have an agent, and the slots the quota is charged for: not those of kernels
    whose image is being pulled."""

    sessions: int = 0
    slots: Slots = field(default_factory=Slots)


@dataclass(frozen=True, slots=True)
class LimitChanges:
    """New limits by name: `sessions`, `cpu` (thousandths of a processor), `mem` (bytes), `gpu`,
    `scaling_groups`. What is not named stays; None is no limit from now on."""

    values: Mapping[str, Any]

    def columns(self) -> dict[str, Any]:
        """The columns to set; raises `InvalidRequest` naming the field that is wrong."""
        checked: dict[str, Any] = {}
        for name, value in self.values.items():
            if name == "scaling_groups":
                checked[name] = None if value is None else _groups(value)
            else:
                most = _MOST_SESSIONS if name == "sessions" else MOST
                checked[f"max_{name}"] = None if value is None else _amount(name, value, most)
        return checked


def set_limits(conn: Connection, name: str, changes: LimitChanges) -> None:
    """Change what the user named so may occupy; what runs goes on. Raises `UnknownId`, or
    `InvalidRequest`."""
    columns = changes.columns()
    found = conn.execute(select(users.c.id).where(users.c.name == name).with_for_update())
    if found.one_or_none() is None:
        raise UnknownId(f"There is no user {name!r}", id=name)
    if columns:
        conn.execute(update(users).where(users.c.name == name).values(**columns))


def locked(conn: Connection, user_ids: Collection[str]) -> dict[str, Limits]:
    """The limits of those of these users who are still there; their rows are held, by ascending
    id, until the end of the transaction."""
    found = conn.execute(
        select(users).where(users.c.id.in_(user_ids)).order_by(users.c.id).with_for_update()
    )
    return {row.id: Limits.of(row) for row in found}


def occupied(conn: Connection) -> dict[str, Occupied]:
    """What users occupy, by the user's id; those who occupy nothing are not in it."""
    charged = occupancy.of_users(conn)
    return {
        owner: Occupied(count, charged.get(owner, Slots()))
        for owner, count in occupancy.active_sessions(conn).items()
    }


def _amount(name: str, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise InvalidRequest(f"{name} is from 0 to {most}, or null for no limit", field=name)
    return value


def _groups(names: Sequence[str]) -> list[str]:
    for name in names:
        if not name or len(name) > _LONGEST_GROUP or not name.isprintable():
            raise InvalidRequest(
                f"scalingGroups: {name[:_LONGEST_GROUP]!r} is no name of a scaling group",
                field="scalingGroups",
            )
    return list(dict.fromkeys(names))
