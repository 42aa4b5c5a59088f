"""Kernels follow what agents report of their current attempts, and of no others."""

from rig.people import ROOT
from rig.queues import DIGEST, insert_host, insert_session
from sqlalchemy import Connection, update

from wharfinger.contracts.ingest import ImagePullStarted, Report
from wharfinger.contracts.wire import ImageEvidence
from wharfinger.domain.references import Reference
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.fleet import agents
from wharfinger.manager.pulls import attempts
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.following import follow, read_events
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

IMAGE = "h.test/image:v1"


def _order(conn: Connection) -> str:
    insert_host(conn, "a-1")
    bound = {"status": KernelStatus.PREPARING, "agent_id": "a-1"}
    insert_session(conn, "s", bound)
    return _attempt(conn)


def _attempt(conn: Connection) -> str:
    reference = Reference.parse(IMAGE)
    attempt_id = attempts.create(
        conn, kernel_id="s-0", agent_id="a-1", reference=reference, root_digest=DIGEST, by="test"
    )
    conn.execute(update(tables.kernels).values(attempt_id=attempt_id))
    return attempt_id


def _report(attempt_id: str) -> Report:
    started = ImagePullStarted(
        sequence=1, attempt_id=attempt_id, reference=IMAGE, root_digest=DIGEST
    )
    return Report(incarnation="i1", begun=1, events=(started,))


def _status(conn: Connection) -> KernelStatus:
    return kernels.of_session(conn, "s")[0].status


async def test_a_report_moves_the_kernel_its_event_is_about_once(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        report = _report(_order(conn))
        attempts.start(conn, report.events[0].attempt_id, by="test")
        assert read_events(conn, "a-1", report)
        assert _status(conn) is KernelStatus.PULLING
        assert not read_events(conn, "a-1", report)

    await storage.write(story)


async def test_an_attempt_that_is_not_the_current_one_says_nothing(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        stale = _order(conn)
        _attempt(conn)
        attempts.start(conn, stale, by="test")
        assert not read_events(conn, "a-1", _report(stale))
        assert not follow(conn, by="test")
        assert _status(conn) is KernelStatus.PREPARING

    await storage.write(story)


async def test_a_session_enters_the_image_under_the_tag_the_host_has(storage: Storage) -> None:
    def story(conn: Connection) -> list[str]:
        evidence = ImageEvidence(
            image_id="sha256:1",
            tags=("h.test/image:older",),
            digests=(f"h.test/image@{DIGEST}",),
            os="linux",
            architecture="amd64",
        )
        attempts.finish(conn, _order(conn), evidence, by="test")
        assert follow(conn, by="test")
        assert _status(conn) is KernelStatus.PREPARED
        return [image.reference for image in agents.images(conn, "a-1", ROOT)]

    assert await storage.write(story) == ["h.test/image:older"]
