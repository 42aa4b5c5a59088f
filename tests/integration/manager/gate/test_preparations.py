"""What is being prepared where, on each database."""

import asyncio

import pytest
from rig.rows import insert_agent, insert_task
from rig.tasks import within
from sqlalchemy import Connection

from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.progress import Phase
from wharfinger.domain.references import Reference
from wharfinger.manager.gate import preparations
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.pulls import attempts
from wharfinger.manager.storage.port import Storage

ONE, TWO = "h.test/one:v1", "h.test/two:v1"
DIGEST, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64
IMAGE = ImageKeys(ONE, frozenset({DIGEST}), "id-1")


def task(conn: Connection, task_id: str, *agent_ids: str) -> list[str]:
    """A task with an item of `ONE` on each of these agents; their ids."""
    insert_task(conn, task_id)
    rows.add(conn, task_id, [NewItem(agent_id, ONE, DIGEST) for agent_id in agent_ids], by="test")
    return [item.id for item in rows.of_task(conn, task_id)]


def begin(conn: Connection, item_id: str, image: ImageKeys = IMAGE) -> bool:
    return rows.run(conn, item_id, PreparationKind.UNLOAD, image, phase=Phase.WAITING, by="test")


@pytest.fixture
async def items(storage: Storage) -> list[str]:
    def insert(conn: Connection) -> list[str]:
        insert_agent(conn, "a-1")
        insert_agent(conn, "a-2")
        return task(conn, "t1", "a-1", "a-2")

    return await storage.write(insert)


@pytest.mark.parametrize(
    "image",
    [
        ImageKeys(ONE),
        ImageKeys(TWO, frozenset({OTHER, DIGEST})),
        ImageKeys(TWO, image_id="id-1"),
    ],
)
async def test_whatever_may_be_the_same_image_meets_it_on_its_agent(
    storage: Storage, items: list[str], image: ImageKeys
) -> None:
    assert await storage.write(begin, items[0])
    there = await storage.read(preparations.on_agents, ["a-1", "a-2"])
    found = there.against("a-1", image)
    assert found is not None
    assert (found.item_id, found.task_id, found.kind) == (items[0], "t1", "unload")
    assert found.keys == IMAGE
    assert there.against("a-2", image) is None


async def test_another_image_does_not_meet_it(storage: Storage, items: list[str]) -> None:
    assert await storage.write(begin, items[0])
    there = await storage.read(preparations.on_agents, None)
    assert there.against("a-1", ImageKeys(TWO, frozenset({OTHER}), "id-2")) is None
    elsewhere = await storage.read(preparations.on_agents, ["a-2"])
    assert elsewhere.against("a-1", IMAGE) is None


async def test_an_image_is_prepared_by_one_item_at_a_time(
    storage: Storage, items: list[str]
) -> None:
    assert await storage.write(begin, items[0])
    [second] = await storage.write(task, "t2", "a-1")
    assert not await storage.write(begin, second, ImageKeys(TWO, image_id="id-1"))
    [item] = await storage.read(rows.of_task, "t2")
    assert (item.status, item.attempts) == ("queued", 0)
    await storage.write(rows.cancel, items[0], by="test")
    assert await storage.write(begin, second)


async def test_it_tells_how_far_its_item_is_and_its_newest_attempt(
    storage: Storage, items: list[str]
) -> None:
    def work(conn: Connection) -> str:
        begin(conn, items[0])
        newest = ""
        for _ in range(2):
            newest = attempts.create(
                conn,
                item_id=items[0],
                agent_id="a-1",
                reference=Reference.parse(ONE),
                root_digest=DIGEST,
                by="test",
            )
        rows.note_progress(conn, items[0], Phase.DOWNLOADING, 7, 2.5)
        return newest

    newest = await storage.write(work)
    found = (await storage.read(preparations.on_agents, None)).against("a-1", IMAGE)
    assert found is not None
    assert (found.bytes_done, found.eta_seconds, found.attempt_id) == (7, 2.5, newest)


@pytest.mark.usefixtures("items")
async def test_of_two_that_begin_at_once_one_waits(storage: Storage) -> None:
    def under_lock(conn: Connection, item_id: str) -> bool:
        preparations.lock(conn, ["a-1"])
        return begin(conn, item_id)

    for number in range(3):
        [first] = await storage.write(task, f"x{number}", "a-1")
        [second] = await storage.write(task, f"y{number}", "a-1")
        both = asyncio.gather(*(storage.write(under_lock, each) for each in (first, second)))
        assert sorted(await within(both)) == [False, True]
        for each in (first, second):
            await storage.write(rows.cancel, each, by="test")
