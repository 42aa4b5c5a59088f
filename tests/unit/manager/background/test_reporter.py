"""Reports are coalesced; the last is never lost."""

import asyncio
from collections.abc import Callable
from typing import Any

from wharfinger.manager.background.reporter import Reporter
from wharfinger.manager.background.store import Progress
from wharfinger.manager.bus.port import Message
from wharfinger.manager.storage.errors import StorageUnavailable

HOUR = 3600.0


class Recorder:
    """Takes what a reporter passes on; fails as long as it is `broken`."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.saved: list[Progress] = []
        self.broken = False
        self.moved = asyncio.Event()

    async def publish(self, message: Message) -> None:
        self.moved.set()
        if self.broken:
            raise StorageUnavailable
        self.messages.append(message)

    async def save(self, progress: Progress) -> None:
        self.moved.set()
        if self.broken:
            raise StorageUnavailable
        self.saved.append(progress)

    async def wait_until(self, predicate: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not predicate():
                self.moved.clear()
                await self.moved.wait()

    def reporter(self, *, publish_seconds: float = 0.0, save_seconds: float = 0.0) -> Reporter:
        return Reporter(
            3,
            Progress(10, 100, "before"),
            publish=self.publish,
            publish_seconds=publish_seconds,
            save=self.save,
            save_seconds=save_seconds,
        )


def item(agent_id: str, done: int) -> dict[str, Any]:
    return {"agentId": agent_id, "reference": "r", "bytesDone": done}


async def test_what_is_not_told_stays_and_current_never_falls() -> None:
    reporter = Recorder().reporter()
    reporter.update(message="now")
    assert reporter.progress == Progress(10, 100, "now")
    reporter.update(current=40, maximum=50)
    reporter.update(current=20)
    assert reporter.progress == Progress(40, 50, "now")


async def test_a_burst_is_one_message_with_the_newest_of_each_item() -> None:
    recorder = Recorder()
    reporter = recorder.reporter(publish_seconds=HOUR, save_seconds=HOUR)
    reporter.start()
    for done in range(1, 6):
        reporter.update(current=10 + done, items=[item("a", done), item("b", 2 * done)])
    await recorder.wait_until(lambda: bool(recorder.messages and recorder.saved))
    reporter.update(current=90, items=[item("b", 11)])
    await reporter.close(flush=True)
    first, last = recorder.messages
    assert (first.id, first.kind, first.data["current"]) == ("3-1", "bgtask_updated", 15)
    assert first.data["items"] == [item("a", 5), item("b", 10)]
    assert (last.id, last.data["current"], last.data["items"]) == ("3-2", 90, [item("b", 11)])
    assert recorder.saved == [Progress(15, 100, "before")]


async def test_only_messages_without_items_may_be_coalesced_on_their_way() -> None:
    recorder = Recorder()
    reporter = recorder.reporter()
    reporter.start()
    reporter.update(current=20)
    await recorder.wait_until(lambda: len(recorder.messages) == 1)
    reporter.update(items=[item("a", 1)])
    await recorder.wait_until(lambda: len(recorder.messages) == 2)
    await reporter.close(flush=True)
    assert [message.coalesce for message in recorder.messages] == ["progress", ""]


async def test_what_could_not_be_passed_on_is_tried_again() -> None:
    recorder = Recorder()
    recorder.broken = True
    reporter = recorder.reporter()
    reporter.start()
    reporter.update(current=20, items=[item("a", 1), item("b", 1)])
    await recorder.moved.wait()
    reporter.update(items=[item("b", 2)])
    recorder.broken = False
    await recorder.wait_until(lambda: bool(recorder.messages and recorder.saved))
    await reporter.close(flush=True)
    newest = {one["agentId"]: one for message in recorder.messages for one in message.data["items"]}
    assert newest == {"a": item("a", 1), "b": item("b", 2)}
    assert recorder.saved[-1] == Progress(20, 100, "before")


async def test_a_lost_run_flushes_nothing() -> None:
    recorder = Recorder()
    reporter = recorder.reporter(publish_seconds=HOUR)
    reporter.start()
    reporter.update(current=20)
    await recorder.wait_until(lambda: bool(recorder.messages))
    reporter.update(current=30)
    await reporter.close(flush=False)
    assert [message.data["current"] for message in recorder.messages] == [20]


async def test_nothing_new_is_not_told_again_at_the_end() -> None:
    recorder = Recorder()
    reporter = recorder.reporter()
    reporter.start()
    reporter.update(current=20)
    await recorder.wait_until(lambda: bool(recorder.messages))
    await reporter.close(flush=True)
    assert len(recorder.messages) == 1
