"""Every accepted attempt has exactly one end, in whatever order things happen."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rig.misbehaving_engine import DIGEST, NAME, MisbehavingEngine, nothing

from wharfinger.agent.chains import LayerChains
from wharfinger.agent.engine.port import EngineError, LocalImage
from wharfinger.agent.locks import KeyedLocks
from wharfinger.agent.outbox import Outbox
from wharfinger.agent.puller import Puller
from wharfinger.agent.room import Room
from wharfinger.contracts.ingest import ImagePullStarted
from wharfinger.contracts.rpc import PullOrder, PullOutcome, PullPolicy
from wharfinger.domain.failures import Failure, FailureClass


def arrives(engine: MisbehavingEngine) -> None:
    engine.hold()


def breaks(_: MisbehavingEngine) -> None:
    raise EngineError(Failure(FailureClass.NETWORK, "the registry went away"))


def dies(engine: MisbehavingEngine) -> None:
    engine.dead = True


class SlowEngine(MisbehavingEngine):
    """Anything may happen while it answers."""

    async def inspect(self, name: str) -> LocalImage | None:
        await asyncio.sleep(0)
        image = await super().inspect(name)
        await asyncio.sleep(0)
        return image

    async def tag(self, name: str, reference: str) -> None:
        await asyncio.sleep(0)
        if name not in self.held:
            raise EngineError(Failure(FailureClass.ENGINE_ERROR, "the image is gone"))
        await super().tag(name, reference)


def order_for(attempt_id: str, reference: str, policy: PullPolicy) -> PullOrder:
    return PullOrder(
        attempt_id=attempt_id, reference=reference, root_digest=DIGEST, layers=(), policy=policy
    )


class Yard:
    """A puller beside a slow engine, calls under way, and what must hold."""

    def __init__(self) -> None:
        self.engine = SlowEngine()
        self.locks = KeyedLocks()
        self.outbox = Outbox(asyncio.Event())
        self.puller = Puller(
            self.engine,
            self.locks,
            self.outbox,
            room=Room(self.engine, LayerChains(self.engine)),
            describe=self.engine.describe,
        )
        self.accepted: set[str] = set()
        self._calls: list[asyncio.Task[None]] = []

    def order(self, *orders: PullOrder) -> None:
        async def call() -> None:
            for answer in await self.puller.check_and_pull(orders, 60):
                if answer.outcome is PullOutcome.PULLING:
                    self.accepted.add(answer.attempt_id)

        self._call(call())

    def cancel(self, *attempt_ids: str) -> None:
        async def call() -> None:
            answers = await self.puller.cancel(attempt_ids, 60)
            assert PullOutcome.PULLING not in {answer.outcome for answer in answers}

        self._call(call())

    def remove(self) -> None:
        async def call() -> None:
            async with self.locks.hold(DIGEST, "id"):
                await asyncio.sleep(0)
                self.engine.held.clear()

        self._call(call())

    def let_go(self, at_end: Callable[[MisbehavingEngine], None]) -> None:
        """The stream under way ends so, and the next waits again."""

        def end(engine: MisbehavingEngine) -> None:
            engine.let_go.clear()
            at_end(engine)

        self.engine.dead = False
        self.engine.at_end = end
        self.engine.let_go.set()

    def ends(self) -> list[str]:
        return [
            event.attempt_id
            for event in self.outbox.pending
            if not isinstance(event, ImagePullStarted)
        ]

    async def finish(self) -> None:
        """Return when nothing is under way any more."""
        async with asyncio.timeout(10):
            while self.puller.in_hand() or not all(call.done() for call in self._calls):
                self.let_go(arrives)
                await asyncio.sleep(0)
            await asyncio.gather(*self._calls)

    def _call(self, call: Coroutine[Any, Any, None]) -> None:
        self._calls.append(asyncio.create_task(call))


Step = Callable[[Yard], None] | int
"""Something that happens, or so many turns of the loop."""

attempts = st.integers(0, 4).map(lambda number: f"t{number}")
orders = st.builds(
    order_for,
    attempts,
    st.sampled_from([f"{NAME}:v1", f"{NAME}:v2"]),
    st.sampled_from(PullPolicy),
)
happenings = st.one_of(
    st.lists(orders, min_size=1, max_size=3).map(lambda some: lambda yard: yard.order(*some)),
    st.lists(attempts, min_size=1, max_size=3).map(lambda some: lambda yard: yard.cancel(*some)),
    st.sampled_from([arrives, breaks, dies, nothing]).map(
        lambda at_end: partial(Yard.let_go, at_end=at_end)
    ),
    st.just(Yard.remove),
)


@given(st.lists(happenings | st.integers(1, 12), max_size=25))
async def test_every_accepted_attempt_ends_once_and_nothing_stays_behind(
    steps: list[Step],
) -> None:
    yard = Yard()
    for step in steps:
        if isinstance(step, int):
            for _ in range(step):
                await asyncio.sleep(0)
        else:
            step(yard)
        yard.puller.progress()
    await yard.finish()
    assert len(yard.ends()) == len(set(yard.ends()))
    assert yard.accepted <= set(yard.ends())
    assert not yard.locks.busy(DIGEST, "id")
    await yard.puller.close()
