"""What ended long ago is forgotten, with everything that belongs to it."""

from typing import Any

import pytest
from rig.catalogue import told_image
from rig.queues import DIGEST, avoid, insert_host, insert_image, insert_session
from sqlalchemy import Connection, func, insert, select, update

from wharfinger.domain.references import Reference
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.catalogue import entries
from wharfinger.manager.pulls import attempts
from wharfinger.manager.sessions import leftovers, retention
from wharfinger.manager.sessions.retention import Retention, remove_unused
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage

ENDED = {"status": KernelStatus.TERMINATED, "ended_at": 1.0}
OTHER = "sha256:" + "b" * 64


def count(conn: Connection, table: Any) -> int:
    return conn.scalar(select(func.count()).select_from(table)) or 0


async def test_sessions_go_with_all_of_theirs_in_batches(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_REMOVED_AT_ONCE", 2)

    def fill(conn: Connection) -> None:
        insert_host(conn, "a-1")
        for number in range(5):
            insert_session(conn, f"old{number}", ENDED, ENDED, ended_at=1.0)
        insert_session(conn, "young", ENDED, ended_at=now(conn))
        insert_session(conn, "runs", {"status": KernelStatus.RUNNING, "agent_id": "a-1"})
        attempts.create(
            conn,
            kernel_id="old0-0",
            agent_id="a-1",
            reference=Reference.parse("h.test/image:v1"),
            root_digest=DIGEST,
            by="test",
        )
        conn.execute(
            insert(tables.kernel_logs).values(kernel_id="old1-1", data=b"x", truncated=False)
        )

    def look(conn: Connection) -> None:
        assert set(conn.scalars(select(tables.sessions.c.id))) == {"young", "runs"}
        kept = {"young-0", "runs-0"}
        assert set(conn.scalars(select(tables.kernels.c.id))) == kept
        assert set(conn.scalars(select(tables.transitions.c.entity_id))) == kept
        assert count(conn, tables.attempts) == count(conn, tables.kernel_logs) == 0

    await storage.write(fill)
    await Retention(storage, keep=3600.0).run_once()
    await storage.read(look)


async def test_what_nothing_refers_to_goes_once_it_is_not_young(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        for digest in (DIGEST, OTHER, "sha256:catalogued", "sha256:young"):
            insert_image(conn, digest)
        young = tables.resolved_images.c.root_digest == "sha256:young"
        conn.execute(update(tables.resolved_images).where(~young).values(resolved_at=1.0))
        insert_session(conn, "s", {})
        entries.register(conn, told_image("h.test/a:v1", "sha256:catalogued"))
        remove_unused(conn)
        known = set(conn.scalars(select(tables.resolved_images.c.root_digest)))
        assert known == {DIGEST, "sha256:catalogued", "sha256:young"}

    await storage.write(story)


async def test_agents_are_avoided_and_cleared_only_as_long_as_it_means_anything(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        insert_host(conn, "a-1")
        insert_host(conn, "a-2", status=AgentStatus.RETIRED)
        avoid(conn, "a-1", until=1.0)
        avoid(conn, "a-1", until=9e9, digest=OTHER)
        leftovers.note(conn, "a-1", "k1", "c1")
        leftovers.note(conn, "a-2", "k2", "c2")
        remove_unused(conn)
        assert conn.scalars(select(tables.avoided_images.c.root_digest)).all() == [OTHER]
        assert conn.scalars(select(tables.leftovers.c.kernel_id)).all() == ["k1"]

    await storage.write(story)
