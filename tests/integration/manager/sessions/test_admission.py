"""Who may start: whole sessions, the oldest first, as far as the quota goes."""

from collections.abc import Sequence

import pytest
from rig.queues import insert_host, insert_session, insert_user
from sqlalchemy import Connection, delete

from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Quota
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.admission import admit, owners_ready
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

PREPARED = {"status": KernelStatus.PREPARED, "agent_id": "a-1", "image_id": "sha256:1"}
RUNNING = PREPARED | {"status": KernelStatus.RUNNING, "container_id": "c"}
PULLING = PREPARED | {"status": KernelStatus.PULLING}


def cluster(conn: Connection, quota: Quota = Quota()) -> None:  # noqa: B008  # frozen
    insert_host(conn, "a-1")
    insert_user(conn, "ada", quota)


def admit_all(conn: Connection) -> bool:
    return admit(conn, owners_ready(conn), by="test")


def statuses(conn: Connection, *session_ids: str) -> list[Sequence[str]]:
    return [[k.status.value for k in kernels.of_session(conn, each)] for each in session_ids]


async def test_a_quota_that_fits_one_of_two_cold_sessions_starts_the_older(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, Quota(cpu=1000))
        insert_session(conn, "older", PREPARED)
        insert_session(conn, "newer", PREPARED)
        assert admit_all(conn)
        assert statuses(conn, "older", "newer") == [["CREATING"], ["PENDING"]]
        [waiting] = kernels.of_session(conn, "newer")
        assert waiting.agent_id is None
        assert waiting.status_info is Reason.USER_QUOTA_EXCEEDED
        assert waiting.status_data is not None
        assert waiting.status_data["exceeds"] == ["cpu"]
        assert not admit_all(conn)

    await storage.write(story)


async def test_a_session_over_quota_goes_back_as_a_whole(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, Quota(cpu=1500))
        insert_session(conn, "two", PREPARED, PREPARED)
        assert admit_all(conn)
        assert statuses(conn, "two") == [["PENDING", "PENDING"]]

    await storage.write(story)


async def test_nobody_starts_before_all_of_the_session_are_prepared(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        cluster(conn)
        insert_session(conn, "half", PREPARED, PULLING)
        assert owners_ready(conn) == []
        assert statuses(conn, "half") == [["PREPARED", "PULLING"]]

    await storage.write(story)


async def test_a_session_that_has_begun_to_start_is_not_stopped_by_a_quota(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, Quota(cpu=1000))
        insert_session(conn, "begun", RUNNING, PREPARED)
        assert admit_all(conn)
        assert statuses(conn, "begun") == [["RUNNING", "CREATING"]]

    await storage.write(story)


async def test_what_runs_and_what_is_ending_counts_and_what_is_prepared_does_not(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, Quota(cpu=2000))
        insert_session(conn, "ending", RUNNING | {"status": KernelStatus.TERMINATING})
        insert_session(conn, "first", PREPARED)
        insert_session(conn, "second", PREPARED)
        assert admit_all(conn)
        assert statuses(conn, "first", "second") == [["CREATING"], ["PENDING"]]

    await storage.write(story)


async def test_an_owner_who_is_gone_has_no_quota(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        cluster(conn, Quota(cpu=1))
        insert_session(conn, "left", PREPARED)
        conn.execute(delete(tables.users))
        assert admit_all(conn)
        assert statuses(conn, "left") == [["CREATING"]]

    await storage.write(story)


@pytest.mark.parametrize("status", [AgentStatus.JOINING, AgentStatus.LOST, AgentStatus.RETIRED])
async def test_nobody_starts_on_an_agent_that_is_away(
    storage: Storage, status: AgentStatus
) -> None:
    def story(conn: Connection) -> None:
        insert_host(conn, "a-1", status=status)
        insert_session(conn, "waits", PREPARED)
        assert not admit_all(conn)
        assert statuses(conn, "waits") == [["PREPARED"]]

    await storage.write(story)
