"""Bringing scheduled kernels their images: check-and-pull, and everything it answers.

An attempt is committed before its agent is called. Kernels of one image on one agent share one
pull, and one place among the pulls in flight.
"""

from collections.abc import Sequence

import structlog
from sqlalchemy import Connection

from wharfinger.contracts.rpc import PullOrder, PullOutcome, PullPolicy
from wharfinger.domain.errors import UnknownRegistry
from wharfinger.domain.failures import Failure, FailureClass, FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.vault import VaultError
from wharfinger.manager.errands import Errands, beside_a_loop
from wharfinger.manager.fleet.calls import AgentCalls
from wharfinger.manager.fleet.pause import Pause
from wharfinger.manager.loops import Loop
from wharfinger.manager.pulls import attempts, orders
from wharfinger.manager.pulls.attempts import Attempt
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.sessions.channels import ring
from wharfinger.manager.sessions.following import follow
from wharfinger.manager.sessions.ordering import Batch, advance, apply_answers
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.images import ResolvedImage

log = structlog.get_logger()


class CheckPrecond:
    """The loop that brings kernels from SCHEDULED to PREPARED. Start and stop it by its own
    `start` and `stop`."""

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        calls: AgentCalls,
        registries: Registries,
        client: RegistryClient,
        limits: Limits,
        *,
        by: str,
        period: float = 2.0,
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._calls = calls
        self._registries = registries
        self._client = client
        self._limits = limits
        self._by = by
        self._pause = Pause()
        self._sending = Errands(beside_a_loop)
        self._stopping = Errands(beside_a_loop)
        self.loop = Loop("check_precond", self.run_once, period)

    async def start(self) -> None:
        """Begin."""
        self.loop.start()

    async def stop(self) -> None:
        """Call nobody any more. What was ordered is gone on with by whoever runs next."""
        await self.loop.stop()
        await self._sending.stop()
        await self._stopping.stop()

    async def run_once(self) -> None:
        """One round, and the calls that follow from it."""
        found = await self._storage.write(
            advance,
            self._limits,
            sending_to=frozenset(self._sending.running),
            stopping_at=frozenset(self._stopping.running),
            by=self._by,
        )
        for batch in found.batches:
            self._sending.start(batch.agent_id, self._send, batch)
        for agent_id, unwanted in found.unwanted.items():
            self._stopping.start(agent_id, self._stop, agent_id, unwanted)
        if found.changed:
            await ring(self._bus, KernelStatus.PREPARING)

    async def _send(self, batch: Batch) -> None:
        """Send attempts to their agent, and apply what it answers."""
        sent = []
        for attempt in batch.attempts:
            order = await self._pull_order(attempt, batch)
            if isinstance(order, PullOrder):
                sent.append(order)
            elif await self._storage.write(_fail, attempt.id, order, by=self._by):
                await ring(self._bus)
        if not sent:
            return
        async with self._pause.after_trouble(batch.agent_id):
            incarnation, answers = await self._calls.check_and_pull(batch.agent_id, sent)
            moved = await self._storage.write(
                apply_answers, batch.agent_id, answers, incarnation, by=self._by
            )
            if moved:
                await ring(self._bus, KernelStatus.PREPARED)
        self.loop.ring()

    async def _stop(self, agent_id: str, unwanted: Sequence[Attempt]) -> None:
        """Stop attempts nobody waits for any more; each ends as the agent says it ended."""
        async with self._pause.after_trouble(agent_id):
            answers = await self._calls.cancel(agent_id, [attempt.id for attempt in unwanted])
            await self._storage.write(apply_answers, agent_id, answers, None, by=self._by)
            if any(answer.outcome is not PullOutcome.PULLING for answer in answers):
                self.loop.ring()  # others have room now

    async def _pull_order(self, attempt: Attempt, batch: Batch) -> PullOrder | Failure:
        """What the agent is told, or why it is not even called."""
        if attempt.look_only:
            return orders.look(attempt)
        reference = Reference.parse(attempt.reference)
        try:
            registry = await self._registries.connection(reference.registry)
        except (UnknownRegistry, VaultError) as error:
            return Failure(FailureClass.AUTH, error.message, error.code)
        image = batch.images.get(attempt.root_digest)
        if image is None or image.for_platform(batch.platform) is None:
            pinned = Reference.parse(reference.pinned(attempt.root_digest))
            image = await self._look_up(pinned, registry, image, batch.platform)
        variant = image.for_platform(batch.platform) if image else None
        if image is not None and variant is None:
            return _wrong_platform(image, batch.platform)
        margin = self._limits.disk_margin
        return orders.pull(attempt, PullPolicy.SESSION, registry, variant, margin)

    async def _look_up(
        self,
        pinned: Reference,
        registry: RegistryConnection,
        known: ResolvedImage | None,
        host: Platform,
    ) -> ResolvedImage | None:
        """What the digest consists of for this host as well, where only the registry knows it.

        None when that does not answer: it hinders nothing yet, since the image may be there, and
        else the pull says what is wrong.
        """
        if known is not None and host.choose(known.others) is None:
            return known
        hosts = {variant.platform for variant in known.platforms} if known else set()
        try:
            image = await self._client.resolve(pinned, registry, hosts | {host})
        except FailureError as error:
            log.info("layers not known", image=str(pinned), error=error.to_json())
            return None
        await self._storage.write(resolved.keep, image)
        return image


def _wrong_platform(image: ResolvedImage, host: Platform) -> Failure:
    there = ", ".join(map(str, image.available))
    return Failure(
        FailureClass.WRONG_PLATFORM,
        f"{image.root_digest} has no variant for {host}; it has {there or 'none'}",
    )


def _fail(conn: Connection, attempt_id: str, failure: Failure, *, by: str) -> bool:
    attempts.fail(conn, attempt_id, failure, by=by)
    return follow(conn, (attempt_id,), by=by)
