"""Starting containers: prepared sessions are admitted, and their agents asked until they answer."""

from collections.abc import Sequence

from wharfinger.contracts.rpc import KernelOrder
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.errands import Errands, beside_a_loop
from wharfinger.manager.fleet.calls import AgentCalls, AgentUnreachable
from wharfinger.manager.fleet.pause import Pause
from wharfinger.manager.loops import Loop
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.sessions.admission import admit, owners_ready
from wharfinger.manager.sessions.channels import ring
from wharfinger.manager.sessions.created import apply_answers, note_unanswered, orders
from wharfinger.manager.storage.port import Storage


class StartContainers:
    """The loop that brings kernels from PREPARED to RUNNING. Start and stop it by its own `start`
    and `stop`."""

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        calls: AgentCalls,
        limits: Limits,
        *,
        by: str,
        period: float = 2.0,
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._calls = calls
        self._limits = limits
        self._by = by
        self._pause = Pause()
        self._errands = Errands(beside_a_loop)
        self._in_hand: set[str] = set()
        self.loop = Loop("start_containers", self.run_once, period)

    async def start(self) -> None:
        """Begin."""
        self.loop.start()

    async def stop(self) -> None:
        """Call nobody any more. What was ordered is asked for again by whoever runs next."""
        await self.loop.stop()
        await self._errands.stop()

    async def run_once(self) -> None:
        """Admit what is ready, and have agents asked for what is not known to run."""
        owners = await self._storage.read(owners_ready)
        if owners:
            changed = await self._storage.write(admit, owners, by=self._by)
            if changed:
                await ring(self._bus, KernelStatus.CREATING)
        asked = frozenset(self._in_hand)  # before the reading, which may be older than an answer
        for agent_id, batch in (await self._storage.read(orders)).items():
            unasked = [order for order in batch if order.kernel_id not in asked]
            if unasked:
                # a call of its own: it is not to wait for containers that take longer
                key = f"{agent_id} {unasked[0].kernel_id}"
                self._in_hand |= {order.kernel_id for order in unasked}
                self._errands.start(key, self._create, agent_id, unasked)

    async def _create(self, agent_id: str, batch: Sequence[KernelOrder]) -> None:
        asked = {order.kernel_id for order in batch}
        try:
            await self._ask(agent_id, batch, sorted(asked))
        finally:
            self._in_hand -= asked
        self.loop.ring()

    async def _ask(self, agent_id: str, batch: Sequence[KernelOrder], asked: Sequence[str]) -> None:
        """Ask one agent, and apply what it answers; repeating it adopts what there is."""
        async with self._pause.after_trouble(agent_id):
            try:
                answers = await self._calls.create_kernels(agent_id, batch)
            except AgentUnreachable:
                if await self._storage.write(note_unanswered, agent_id, asked, by=self._by):
                    await ring(self._bus)
                raise
            changed = await self._storage.write(
                apply_answers, agent_id, asked, answers, self._limits, by=self._by
            )
            if changed:
                await ring(self._bus, KernelStatus.RUNNING)
