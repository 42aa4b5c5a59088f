"""The audit log."""

import pytest
from sqlalchemy import Connection, delete, update

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.access import audit
from wharfinger.manager.access.audit import Action
from wharfinger.manager.access.principal import Principal, Role
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

ADA = Principal("u-1", "ada", Role.SUPERADMIN)
BOB = Principal("u-2", "bob", Role.USER)


def deeds(conn: Connection) -> None:
    audit.note(conn, ADA, Action.IMAGE_PRELOAD, "h.test/a:v1", agents=["a-1"])
    audit.note(conn, BOB, Action.SESSION_CREATE, "s-1", references=["h.test/a:v1"])
    audit.note(conn, ADA, Action.IMAGE_FORGET, "h.test/100%:v1")


def targets(conn: Connection, /, **narrowed: str | int) -> list[str]:
    return [entry.target for entry in audit.page(conn, **({"limit": 10} | narrowed))]  # type: ignore[arg-type]


async def test_deeds_are_told_newest_first_and_page_by_page(storage: Storage) -> None:
    await storage.write(deeds)
    first = await storage.read(audit.page, limit=2)
    assert [(each.actor, each.action) for each in first] == [
        ("ada", "image.forget"),
        ("bob", "session.create"),
    ]
    rest = await storage.read(audit.page, after=first[-1].id, limit=2)
    assert [(each.target, each.detail) for each in rest] == [
        ("h.test/a:v1", {"agents": ["a-1"]}),
    ]


async def test_deeds_are_narrowed_by_who_what_and_to_what(storage: Storage) -> None:
    await storage.write(deeds)
    assert await storage.read(targets, actor="bob") == ["s-1"]
    assert await storage.read(targets, action="image") == ["h.test/100%:v1", "h.test/a:v1"]
    assert await storage.read(targets, action="image.preload") == ["h.test/a:v1"]
    assert await storage.read(targets, target="0%") == ["h.test/100%:v1"]
    assert await storage.read(targets, target="%") == ["h.test/100%:v1"]


async def test_an_unknown_action_is_refused_with_the_known_ones(storage: Storage) -> None:
    with pytest.raises(InvalidRequest, match=r"no action 'rubbish'; known: .*image\.preload"):
        await storage.read(targets, action="rubbish")


async def test_the_database_lets_nobody_change_or_remove_a_deed(storage: Storage) -> None:
    await storage.write(deeds)

    def change(conn: Connection) -> None:
        conn.execute(update(tables.audit).values(actor="eve"))

    def remove(conn: Connection) -> None:
        conn.execute(delete(tables.audit))

    for attempt in (change, remove):
        with pytest.raises(Exception, match="the audit log is only ever added to"):
            await storage.write(attempt)
    assert len(await storage.read(audit.page, limit=10)) == 3
