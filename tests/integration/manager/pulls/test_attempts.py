"""Attempts on real databases: places taken at once, and news from who has no say."""

import asyncio
from collections import Counter

from rig.rows import insert_agent, insert_task
from sqlalchemy import Connection, select

from wharfinger.contracts.ingest import ImagePullFailed, ImagePullFinished, ImagePullStarted
from wharfinger.contracts.rpc import PullAnswer, PullOutcome
from wharfinger.contracts.wire import FailureReport, ImageEvidence
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.references import Reference
from wharfinger.domain.states import AttemptStatus
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.pulls import attempts, events
from wharfinger.manager.pulls.attempts import PullPlace
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

DIGEST = "sha256:" + "a" * 64
REFERENCE = Reference.parse("h.test/one:v1")
LIMITS = Limits(per_agent=2, per_registry=3, total=9)
EVIDENCE = ImageEvidence(
    image_id="sha256:1",
    tags=(str(REFERENCE),),
    digests=(f"h.test/one@{DIGEST}",),
    os="linux",
    architecture="amd64",
)


def begin(conn: Connection, agent_id: str, digest: str = DIGEST) -> str:
    items = tables.items
    return attempts.create(
        conn,
        item_id=conn.scalars(select(items.c.id).where(items.c.agent_id == agent_id)).one(),
        agent_id=agent_id,
        reference=REFERENCE,
        root_digest=digest,
        by="test",
    )


def begin_if_room(conn: Connection, agent_id: str, digest: str = DIGEST) -> None:
    if LIMITS.room(conn).take(PullPlace(agent_id, REFERENCE.registry, REFERENCE.pinned(digest))):
        begin(conn, agent_id, digest)


def count_open(conn: Connection) -> int:
    open_attempts = tables.attempts.c.status.in_(attempts.OPEN)
    return len(conn.execute(select(tables.attempts.c.id).where(open_attempts)).all())


def a_preload_on_two_agents(conn: Connection) -> None:
    insert_agent(conn, "a-1")
    insert_agent(conn, "b-1")
    insert_task(conn, "t1")
    new = [NewItem(agent_id, str(REFERENCE), DIGEST) for agent_id in ("a-1", "b-1")]
    rows.add(conn, "t1", new, by="test")


def status_of(conn: Connection, attempt_id: str) -> AttemptStatus:
    table = tables.attempts
    return AttemptStatus(conn.scalars(select(table.c.status).where(table.c.id == attempt_id)).one())


def accepted(conn: Connection, attempt_id: str) -> bool:
    table = tables.attempts
    query = select(table.c.accepted_begun).where(table.c.id == attempt_id)
    return conn.execute(query).scalar_one() is not None


async def test_managers_that_admit_at_once_stay_within_the_limits(storage: Storage) -> None:
    await storage.write(a_preload_on_two_agents)
    await asyncio.gather(
        *(
            storage.write(begin_if_room, agent_id, f"sha256:{number}")
            for number in range(4)
            for agent_id in ("a-1", "b-1")
        )
    )
    taken = await storage.read(attempts.in_flight)
    assert len(taken) == LIMITS.per_registry
    assert max(Counter(place.agent_id for place in taken).values()) == LIMITS.per_agent


async def test_attempts_that_share_a_pull_share_its_place(storage: Storage) -> None:
    await storage.write(a_preload_on_two_agents)
    for _ in range(LIMITS.per_agent + 2):
        await storage.write(begin_if_room, "a-1")
    assert len(await storage.read(attempts.in_flight)) == 1
    assert await storage.read(count_open) == LIMITS.per_agent + 2


async def test_events_about_another_agents_attempt_change_nothing(storage: Storage) -> None:
    await storage.write(a_preload_on_two_agents)
    attempt_id = await storage.write(begin, "a-1")
    about = {"attempt_id": attempt_id, "reference": str(REFERENCE), "root_digest": DIGEST}
    failure = FailureReport(failure_class=FailureClass.NO_SPACE, message="full")
    told = (
        ImagePullStarted(sequence=1, **about),
        ImagePullFinished(sequence=2, evidence=EVIDENCE, **about),
        ImagePullFailed(sequence=3, failure=failure, **about),
    )
    assert not await storage.write(events.apply, "b-1", told)
    assert await storage.read(status_of, attempt_id) == AttemptStatus.SENT
    assert await storage.write(events.apply, "a-1", told)
    assert await storage.read(status_of, attempt_id) == AttemptStatus.PRESENT


async def test_an_answer_about_another_agents_attempt_changes_nothing(storage: Storage) -> None:
    await storage.write(a_preload_on_two_agents)
    attempt_id = await storage.write(begin, "a-1")
    answer = PullAnswer(attempt_id=attempt_id, outcome=PullOutcome.ABORTED)
    await storage.write(attempts.apply_answers, "b-1", [answer], "i1", by="test")
    assert await storage.read(status_of, attempt_id) == AttemptStatus.SENT
    await storage.write(attempts.apply_answers, "a-1", [answer], "i1", by="test")
    assert await storage.read(status_of, attempt_id) == AttemptStatus.ABORTED


async def test_an_attempt_in_another_agents_hand_is_not_current_there(storage: Storage) -> None:
    await storage.write(a_preload_on_two_agents)
    attempt_id = await storage.write(begin, "a-1")
    assert await storage.read(attempts.not_current, "a-1", [attempt_id, "?"]) == ["?"]
    assert await storage.read(attempts.not_current, "b-1", [attempt_id]) == [attempt_id]


async def test_what_two_reports_do_not_show_is_sent_again(storage: Storage) -> None:
    await storage.write(a_preload_on_two_agents)
    attempt_id = await storage.write(begin, "a-1")
    await storage.write(attempts.note_accepted, attempt_id, "i1")  # after report 1
    assert not await storage.write(attempts.note_missing, "a-1", "i1", 2, ())
    assert not await storage.write(attempts.note_missing, "a-1", "i1", 3, (attempt_id,))
    assert await storage.read(accepted, attempt_id)
    assert await storage.write(attempts.note_missing, "a-1", "i1", 3, ())
    assert not await storage.read(accepted, attempt_id)


async def test_a_new_process_of_the_agent_has_nothing_in_hand(storage: Storage) -> None:
    await storage.write(a_preload_on_two_agents)
    attempt_id = await storage.write(begin, "a-1")
    await storage.write(attempts.note_accepted, attempt_id, "i1")
    assert await storage.write(attempts.note_missing, "a-1", "i2", 1, ())
    assert not await storage.read(accepted, attempt_id)


async def test_an_attempt_sent_too_often_ends(storage: Storage) -> None:
    await storage.write(a_preload_on_two_agents)
    attempt_id = await storage.write(begin, "a-1")
    for _ in range(attempts.MOST_SENDS):
        assert await storage.write(attempts.note_sending, [attempt_id], by="test") == [attempt_id]
    assert await storage.write(attempts.note_sending, [attempt_id], by="test") == []
    assert await storage.read(status_of, attempt_id) == AttemptStatus.FAILED
