"""Prepared sessions come to run, whatever their agents answer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from rig.host_in_memory import HostCalls, HostInMemory
from rig.queues import insert_host, insert_session, insert_user
from rig.tasks import eventually
from sqlalchemy import Connection, select, update

from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.fleet import pause
from wharfinger.manager.pulls import attempts
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.sessions import created, kernels
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.start_containers import StartContainers
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

PREPARED = {"status": KernelStatus.PREPARED, "agent_id": "a-1", "image_id": "sha256:1"}
NO_SPACE = FailureReport(failure_class=FailureClass.NO_SPACE, message="its disk is full")
BUSY = FailureReport(failure_class=FailureClass.ENGINE_ERROR, message="busy")


@dataclass
class Wharf:
    """The loop, with agents `a-1` and `a-2` in memory."""

    storage: Storage
    host: HostInMemory
    calls: HostCalls
    loop: StartContainers

    async def session(self, *kernels: dict[str, object]) -> None:
        await self.storage.write(insert_session, "s", *(PREPARED | each for each in kernels))

    async def kernels(self) -> list[Kernel]:
        return await self.storage.read(kernels.of_session, "s")

    async def reach(self, *statuses: KernelStatus) -> list[Kernel]:
        """Run the loop until its kernels are in these states."""

        async def reached() -> bool:
            return [kernel.status for kernel in await self.kernels()] == list(statuses)

        await self.loop.start()
        await eventually(reached)
        await self.loop.stop()
        return await self.kernels()


@pytest.fixture
async def wharf(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wharf]:
    monkeypatch.setattr(pause, "_LONGEST", 0.001)

    def cluster(conn: Connection) -> None:
        insert_host(conn, "a-1")
        insert_host(conn, "a-2")
        insert_user(conn, "ada")

    await storage.write(cluster)
    bus, host = MemoryBus(), HostInMemory()
    calls = HostCalls(a_1=host, a_2=HostInMemory())
    loop = StartContainers(storage, bus, calls, Limits(per_agent=1), by="test", period=0.01)
    yield Wharf(storage, host, calls, loop)
    await loop.stop()
    await bus.close()


async def test_a_prepared_session_runs_once_its_agent_says_so(wharf: Wharf) -> None:
    await wharf.session({}, {})
    found = await wharf.reach(KernelStatus.RUNNING, KernelStatus.RUNNING)
    assert [kernel.started_at for kernel in found] == [1000.0, 1000.0]
    assert [kernel.accepted_begun for kernel in found] == [1, 1]
    assert [kernel.container_id for kernel in found] == ["c-s-0-1", "c-s-1-2"]
    assert wharf.calls.calls == ["create"]


async def test_a_command_that_ended_before_the_answer_keeps_its_code(wharf: Wharf) -> None:
    wharf.host.ends_at_once = 3
    await wharf.session({})
    [kernel] = await wharf.reach(KernelStatus.TERMINATING)
    assert (kernel.exit_code, kernel.ends_as) == (3, KernelStatus.TERMINATED)
    assert kernel.started_at == 1000.0


async def test_an_agent_is_asked_until_it_is_done_and_makes_one_container(wharf: Wharf) -> None:
    wharf.host.slow = True
    await wharf.session({})

    async def asked_often() -> bool:
        return len(wharf.calls.calls) > created.MOST_CALLS

    await wharf.loop.start()
    await eventually(asked_often)
    wharf.host.slow = False
    await wharf.reach(KernelStatus.RUNNING)
    assert wharf.host.made == ["s-0"]


async def test_an_image_that_is_gone_is_fetched_again_by_a_new_attempt(wharf: Wharf) -> None:
    wharf.host.image_gone.add("s-0")
    await wharf.session({}, {})
    kernel, other = await wharf.reach(KernelStatus.PREPARING, KernelStatus.RUNNING)
    assert (kernel.status_info, kernel.attempts) == (Reason.IMAGE_GONE, 1)
    assert other.attempts == 0
    attempt = await wharf.storage.read(lambda conn: conn.execute(select(tables.attempts)).one())
    assert (attempt.id, attempt.kernel_id) == (kernel.attempt_id, kernel.id)
    assert (attempt.agent_id, attempt.root_digest) == ("a-1", kernel.root_digest)


async def test_an_image_that_is_gone_waits_for_its_place_among_the_pulls(wharf: Wharf) -> None:
    wharf.host.image_gone |= {"s-0", "s-1"}
    await wharf.session({}, {"root_digest": "sha256:" + "b" * 64})
    fetched, kernel = await wharf.reach(KernelStatus.PREPARING, KernelStatus.CREATING)
    assert len(await wharf.storage.read(attempts.in_flight)) == 1
    assert (kernel.status_info, kernel.status_data) == (Reason.PULLS_LIMITED, {"agentId": "a-1"})
    assert kernel.attempts == 0
    assert await wharf.storage.read(created.orders) == {}, "it is not asked again at once"
    await wharf.storage.write(_end_attempt_and_wait, fetched)
    _, kernel = await wharf.reach(KernelStatus.PREPARING, KernelStatus.PREPARING)
    assert len(await wharf.storage.read(attempts.in_flight)) == 1
    assert (kernel.status_info, kernel.attempts, kernel.due) == (Reason.IMAGE_GONE, 1, True)


async def test_an_image_that_is_gone_again_and_again_ends_the_session(wharf: Wharf) -> None:
    wharf.host.image_gone.add("s-0")
    await wharf.session({})
    for _ in range(created.MOST_IMAGES_GONE):
        await wharf.reach(KernelStatus.PREPARING)
        [kernel] = await wharf.kernels()
        await wharf.storage.write(_bring, kernel)
    [kernel] = await wharf.reach(KernelStatus.TERMINATING)
    assert kernel.failure is not None
    assert kernel.failure.failure_class is FailureClass.ENGINE_ERROR
    assert kernel.ends_as is KernelStatus.ERROR


async def test_a_container_that_cannot_be_made_here_is_tried_elsewhere(wharf: Wharf) -> None:
    wharf.host.refuses["s-0"] = NO_SPACE
    await wharf.session({})
    [kernel] = await wharf.reach(KernelStatus.PENDING)
    assert (kernel.agent_id, kernel.agents_failed) == (None, 1)
    assert kernel.status_info is Reason.RETRYING
    avoided = await wharf.storage.read(
        lambda conn: conn.execute(select(tables.avoided_images)).one()
    )
    assert (avoided.agent_id, avoided.root_digest) == ("a-1", kernel.root_digest)


async def test_a_failure_that_may_pass_is_tried_again_later(wharf: Wharf) -> None:
    wharf.host.refuses["s-0"] = BUSY
    await wharf.session({})
    [kernel] = await wharf.reach(KernelStatus.PENDING)
    assert (kernel.tries, kernel.tried_on, kernel.due) == (1, "a-1", False)


async def test_one_that_cannot_be_made_ends_with_the_others_that_run(wharf: Wharf) -> None:
    wharf.host.refuses["s-1"] = BUSY
    await wharf.session({"status": KernelStatus.RUNNING}, {})
    other, kernel = await wharf.reach(KernelStatus.TERMINATING, KernelStatus.TERMINATING)
    assert (other.ends_as, kernel.ends_as) == (KernelStatus.TERMINATED, KernelStatus.ERROR)
    assert kernel.failure == BUSY.failure()


async def test_an_agent_that_reports_and_never_answers_ends_the_session(wharf: Wharf) -> None:
    wharf.calls.unreachable.add("a-1")
    await wharf.session({}, {"agent_id": "a-2"})
    silent, other = await wharf.reach(KernelStatus.TERMINATING, KernelStatus.TERMINATING)
    assert silent.failure is not None
    assert silent.failure.failure_class is FailureClass.AGENT_LOST
    assert (silent.ends_as, other.ends_as) == (KernelStatus.ERROR, KernelStatus.TERMINATED)
    assert wharf.calls.calls.count("create") >= created.MOST_CALLS


async def test_an_agent_told_before_to_end_it_is_no_dead_end(wharf: Wharf) -> None:
    wharf.host.told_to_end.add("s-0")
    await wharf.session({})
    [kernel] = await wharf.reach(KernelStatus.PENDING)
    assert kernel.agents_failed == 1


async def test_an_answer_that_comes_after_the_cancel_changes_nothing(wharf: Wharf) -> None:
    await wharf.session({"status": KernelStatus.CREATING})
    asked = (await wharf.storage.read(created.orders))["a-1"]
    answers = [wharf.host.create(order) for order in asked]
    await wharf.storage.write(
        lambda conn: conn.execute(
            update(tables.kernels).values(
                status=KernelStatus.TERMINATING, ends_as=KernelStatus.CANCELLED
            )
        )
    )
    changed = await wharf.storage.write(
        created.apply_answers, "a-1", ["s-0"], answers, Limits(), by="test"
    )
    assert not changed


def _end_attempt_and_wait(conn: Connection, kernel: Kernel) -> None:
    assert kernel.attempt_id is not None
    attempts.abort(conn, kernel.attempt_id, by="test")
    conn.execute(update(tables.kernels).values(next_try_at=0.0))


def _bring(conn: Connection, kernel: Kernel) -> None:
    reason, image_id = "brought", "sha256:1"
    kernels.move(conn, kernel, KernelStatus.PREPARED, reason=reason, by="test", image_id=image_id)
