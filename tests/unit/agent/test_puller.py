"""Every attempt has one true end, whatever the engine's stream claims."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from rig.misbehaving_engine import DEAD, DIGEST, NAME, PINNED, MisbehavingEngine, nothing

from wharfinger.agent.chains import LayerChains
from wharfinger.agent.engine.port import (
    EngineDescription,
    EngineError,
    LayerEvent,
    LayerStep,
    LocalImage,
)
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.outbox import Outbox
from wharfinger.agent.pull import PROBE_SECONDS
from wharfinger.agent.puller import Puller
from wharfinger.agent.room import Room
from wharfinger.contracts.ingest import Event, ImagePullFailed, ImagePullFinished, ImagePullStarted
from wharfinger.contracts.rpc import PullOrder, PullOutcome, PullPolicy
from wharfinger.contracts.wire import DiskSpace, LayerSize
from wharfinger.domain.failures import Failure, FailureClass

BROKEN = EngineError(Failure(FailureClass.NETWORK, "the registry went away"))


@dataclass
class OvertakenEngine(MisbehavingEngine):
    """An engine on which something happens between its first answer and whoever reads it."""

    happens: Callable[[], Awaitable[object]] | None = None

    async def inspect(self, name: str) -> LocalImage | None:
        image = await super().inspect(name)
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
        return image


class Yard:
    """One puller, its engine, and what it told."""

    def __init__(
        self,
        at_end: Callable[[MisbehavingEngine], None] = nothing,
        engine: OvertakenEngine | None = None,
    ) -> None:
        self.engine = engine or OvertakenEngine(at_end)
        self.locks = KeyedLocks()
        self.news = asyncio.Event()
        self.outbox = Outbox(self.news)
        self.puller = Puller(
            self.engine,
            self.locks,
            self.outbox,
            room=Room(self.engine, LayerChains(self.engine)),
            describe=self.engine.describe,
        )

    async def begin(self, *attempt_ids: str) -> None:
        orders = [order(attempt_id, f"{NAME}:{attempt_id}") for attempt_id in attempt_ids]
        answers = await self.puller.check_and_pull(orders, 5)
        assert {answer.outcome for answer in answers} == {PullOutcome.PULLING}
        async with asyncio.timeout(5):
            await self.engine.asked.wait()

    async def ends(self, count: int) -> list[Event]:
        async with asyncio.timeout(5):
            while len(self._ends()) < count:
                self.news.clear()
                await self.news.wait()
        assert self.puller.in_hand() == ()
        return self._ends()

    def _ends(self) -> list[Event]:
        return [each for each in self.outbox.pending if not isinstance(each, ImagePullStarted)]


def order(attempt_id: str, reference: str, policy: PullPolicy = PullPolicy.PRELOAD) -> PullOrder:
    return PullOrder(
        attempt_id=attempt_id, reference=reference, root_digest=DIGEST, layers=(), policy=policy
    )


def raises(error: EngineError) -> Callable[[MisbehavingEngine], None]:
    def at_end(_: MisbehavingEngine) -> None:
        raise error

    return at_end


def holds_it(engine: MisbehavingEngine) -> None:
    engine.hold()


def holds_it_and_complains(engine: MisbehavingEngine) -> None:
    engine.hold()
    raise BROKEN


def dies(engine: MisbehavingEngine) -> None:
    engine.dead = True


def meets_a_defect(_: MisbehavingEngine) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("at_end", "failure_class"),
    [
        (nothing, FailureClass.CORRUPT),
        (raises(BROKEN), FailureClass.NETWORK),
        (dies, FailureClass.ENGINE_ERROR),
        (meets_a_defect, FailureClass.INTERNAL),
    ],
)
async def test_what_is_not_on_the_host_has_failed_for_everybody(
    at_end: Callable[[MisbehavingEngine], None], failure_class: FailureClass
) -> None:
    yard = Yard(at_end)
    await yard.begin("t1", "t2")
    yard.engine.let_go.set()
    for end in await yard.ends(2):
        assert isinstance(end, ImagePullFailed)
        assert end.failure.failure_class is failure_class


async def test_what_cannot_fit_is_refused_to_everybody_and_never_asked_for() -> None:
    yard = Yard()
    yard.engine.space = DiskSpace(free=10, total=100)
    layer = LayerSize(digest=DIGEST, size=5)
    orders = [
        order(each, f"{NAME}:{each}").model_copy(update={"layers": (layer,), "disk_margin": 1})
        for each in ("t1", "t2")
    ]
    await yard.puller.check_and_pull(orders, 5)
    for end in await yard.ends(2):
        assert isinstance(end, ImagePullFailed)
        assert end.failure.failure_class is FailureClass.NO_SPACE
    assert len(yard.outbox.pending) == 2
    assert not yard.engine.asked.is_set()


@pytest.mark.parametrize("at_end", [holds_it, holds_it_and_complains])
async def test_what_is_on_the_host_has_arrived_whatever_was_said(
    at_end: Callable[[MisbehavingEngine], None],
) -> None:
    yard = Yard(at_end)
    await yard.begin("t1", "t2")
    yard.engine.let_go.set()
    ends = await yard.ends(2)
    assert all(isinstance(end, ImagePullFinished) for end in ends)
    assert {f"{NAME}:t1", f"{NAME}:t2", PINNED} <= yard.engine.held.keys()


async def test_a_pull_that_was_done_as_it_was_cancelled_stays_done() -> None:
    yard = Yard()
    await yard.begin("t1")
    yard.engine.hold()
    (answer,) = await yard.puller.cancel(["t1"], 5)
    assert answer.outcome is PullOutcome.PRESENT
    assert yard.engine.closed.is_set()
    (end,) = await yard.ends(1)
    assert isinstance(end, ImagePullFinished)


async def test_cancels_of_one_attempt_at_once_are_answered_alike() -> None:
    yard = Yard()
    await yard.begin("t1")
    answers = await asyncio.gather(*(yard.puller.cancel(["t1"], 5) for _ in range(3)))
    assert {answer.outcome for (answer,) in answers} == {PullOutcome.ABORTED}
    assert len(await yard.ends(1)) == 1


async def test_an_attempt_cancelled_twice_at_once_leaves_the_pull_to_the_others() -> None:
    yard = Yard()
    await yard.begin("t1", "t2")
    answers = await yard.puller.cancel(["t1", "t1"], 5)
    assert {answer.outcome for answer in answers} == {PullOutcome.ABORTED}
    assert yard.puller.in_hand() == ("t2",)
    yard.engine.hold()
    yard.engine.let_go.set()
    assert [end.attempt_id for end in await yard.ends(2)] == ["t1", "t2"]


async def test_what_a_removal_that_begins_meanwhile_may_take_is_not_believed() -> None:
    yard = Yard()
    yard.engine.hold()
    removal = yard.locks.hold(DIGEST)
    yard.engine.happens = removal.__aenter__
    (answer,) = await yard.puller.check_and_pull([order("t1", PINNED)], 5)
    assert answer.outcome is PullOutcome.PULLING
    await removal.__aexit__(None, None, None)
    (end,) = await yard.ends(1)
    assert isinstance(end, ImagePullFinished)


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [(PullPolicy.LOOK, PullOutcome.PRESENT), (PullPolicy.CHECK, PullOutcome.ABSENT)],
)
async def test_a_look_is_content_with_the_digest_and_a_check_wants_the_tag(
    policy: PullPolicy, outcome: PullOutcome
) -> None:
    yard = Yard()
    yard.engine.hold()
    (answer,) = await yard.puller.check_and_pull([order("t1", f"{NAME}:v1", policy)], 5)
    assert answer.outcome is outcome


@pytest.mark.parametrize("there", [True, False])
async def test_a_look_begins_nothing_and_believes_nothing_in_flux(there: bool) -> None:
    yard = Yard()
    if there:
        yard.engine.hold()
    async with yard.locks.hold(DIGEST):
        (during,) = await yard.puller.check_and_pull([order("t1", PINNED, PullPolicy.LOOK)], 5)
    (after,) = await yard.puller.check_and_pull([order("t1", PINNED, PullPolicy.LOOK)], 5)
    assert during.outcome is PullOutcome.ABSENT
    assert after.outcome is (PullOutcome.PRESENT if there else PullOutcome.ABSENT)
    assert yard.puller.in_hand() == ()


async def test_a_pull_cancelled_before_it_ran_has_its_end_too() -> None:
    yard = Yard()
    await yard.puller.check_and_pull([order("t1", f"{NAME}:v1")], 5)
    (answer,) = await yard.puller.cancel(["t1"], 5)
    assert answer.outcome is PullOutcome.ABORTED
    (end,) = await yard.ends(1)
    assert isinstance(end, ImagePullFailed)


async def test_closing_the_puller_closes_every_stream() -> None:
    yard = Yard()
    await yard.begin("t1")
    await yard.puller.close()
    assert yard.engine.closed.is_set()
    assert yard.puller.in_hand() == ()


@dataclass
class QueueingEngine(OvertakenEngine):
    """An engine whose pulls wait for others of its own, and which dies silently."""

    async def describe(self) -> EngineDescription:
        if self.dead:
            raise DEAD
        return await super().describe()

    async def _lines(self) -> AsyncIterator[LayerEvent]:
        yield LayerEvent("a" * 12, LayerStep.WAITING)
        await asyncio.Event().wait()


@pytest.mark.looptime
async def test_a_queued_pull_waits_as_long_as_its_engine_lives() -> None:
    yard = Yard(engine=QueueingEngine())
    await yard.begin("t1")
    await asyncio.sleep(10 * PROBE_SECONDS)
    assert yard.puller.in_hand() == ("t1",)
    yard.engine.dead = True
    await asyncio.sleep(2 * PROBE_SECONDS)
    (end,) = await yard.ends(1)
    assert isinstance(end, ImagePullFailed)
    assert end.failure.failure_class is FailureClass.STALLED
