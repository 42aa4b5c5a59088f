"""An agent's side of the calls about containers, in memory, that misbehaves in named ways."""

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.fernet import Fernet

from wharfinger.contracts.ingest import Report
from wharfinger.contracts.rpc import (
    CreateAnswer,
    CreateOutcome,
    EndAnswer,
    EndOrder,
    EndOutcome,
    KernelContainer,
    KernelLog,
    KernelOrder,
    KernelRemovalAnswer,
)
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.failures import FailureClass
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.fleet.calls import AgentCalls, AgentUnreachable
from wharfinger.manager.fleet.views import AgentContact

STUCK = FailureReport(
    failure_class=FailureClass.ENGINE_ERROR,
    message="the engine cannot do it",
    detail="unable to remove filesystem: operation not permitted",
)


@dataclass
class HostInMemory:
    """One agent and its engine.

    `image_gone`: it has no image for these kernels. `refuses`: it cannot make their containers.
    `slow`: it does what it is asked and answers that it is not done yet. `cannot_stop` and
    `cannot_remove`: its engine fails at these kernels' containers. `ends_at_once`: what it starts
    has ended with this code when it answers.
    """

    containers: dict[str, KernelContainer] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    image_gone: set[str] = field(default_factory=set)
    refuses: dict[str, FailureReport] = field(default_factory=dict)
    slow: bool = False
    cannot_stop: set[str] = field(default_factory=set)
    cannot_remove: set[str] = field(default_factory=set)
    ends_at_once: int | None = None
    made: list[str] = field(default_factory=list)
    """Kernels a container was made for, once for each."""
    told_to_end: set[str] = field(default_factory=set)
    begun: int = 1

    def create(self, order: KernelOrder) -> CreateAnswer:
        """Make a container, or adopt the one there is."""
        kernel_id = order.kernel_id
        if kernel_id not in self.containers:
            if kernel_id in self.told_to_end:
                return CreateAnswer(kernel_id=kernel_id, outcome=CreateOutcome.ENDED)
            if kernel_id in self.image_gone:
                return CreateAnswer(kernel_id=kernel_id, outcome=CreateOutcome.IMAGE_GONE)
            if failure := self.refuses.get(kernel_id):
                failed = CreateOutcome.FAILED
                return CreateAnswer(kernel_id=kernel_id, outcome=failed, failure=failure)
            self.run(kernel_id)
            if self.ends_at_once is not None:
                self.exit(kernel_id, self.ends_at_once)
        if self.slow:
            return CreateAnswer(kernel_id=kernel_id, outcome=CreateOutcome.CREATING)
        return CreateAnswer(
            kernel_id=kernel_id,
            outcome=CreateOutcome.STARTED,
            container=self.containers[kernel_id],
        )

    def end(self, order: EndOrder) -> EndAnswer:
        """Stop a container, and make none from now on."""
        kernel_id = order.kernel_id
        self.told_to_end.add(kernel_id)
        if kernel_id not in self.containers:
            return EndAnswer(kernel_id=kernel_id, outcome=EndOutcome.ABSENT)
        if kernel_id in self.cannot_stop:
            return EndAnswer(kernel_id=kernel_id, outcome=EndOutcome.FAILED, failure=STUCK)
        if not self.containers[kernel_id].ended:
            self.exit(kernel_id, 143)
        if self.slow:
            return EndAnswer(kernel_id=kernel_id, outcome=EndOutcome.RUNNING)
        data = base64.b64encode(self.logs.get(kernel_id, b""))
        return EndAnswer(
            kernel_id=kernel_id,
            outcome=EndOutcome.ENDED,
            container=self.containers[kernel_id],
            log=KernelLog(data=data, truncated=False) if order.want_log else None,
        )

    def remove(self, kernel_id: str) -> KernelRemovalAnswer:
        """Take an ended container away."""
        if kernel_id in self.cannot_remove:
            return KernelRemovalAnswer(kernel_id=kernel_id, failure=STUCK)
        self.containers.pop(kernel_id, None)
        return KernelRemovalAnswer(kernel_id=kernel_id)

    def run(self, kernel_id: str) -> None:
        """A container of this kernel runs."""
        self.made.append(kernel_id)
        self.containers[kernel_id] = KernelContainer(
            kernel_id=kernel_id,
            container_id=f"c-{kernel_id}-{len(self.made)}",
            state="running",
            started_at=1000.0,
        )

    def exit(self, kernel_id: str, code: int) -> None:
        """Its process ends."""
        self.containers[kernel_id] = self.containers[kernel_id].model_copy(
            update={"state": "exited", "ended": True, "exit_code": code, "ended_at": 2000.0}
        )

    def report(self, incarnation: str = "i1", *, in_hand: Sequence[str] = ()) -> Report:
        """What it tells next."""
        self.begun += 1
        return Report(
            incarnation=incarnation,
            begun=self.begun,
            containers=tuple(self.containers.values()),
            kernels_in_hand=tuple(in_hand),
        )


class HostCalls(AgentCalls):
    """Calls hosts in memory. One that is `unreachable` does not answer; a kernel that is
    `held_up` ends once its event is set."""

    def __init__(self, **hosts: HostInMemory) -> None:
        async def nobody(_: str) -> AgentContact | None:
            return None

        super().__init__(nobody, Vault(Fernet.generate_key()))
        self.hosts = {name.replace("_", "-"): host for name, host in hosts.items()}
        self.unreachable: set[str] = set()
        self.held_up: dict[str, asyncio.Event] = {}
        self.calls: list[str] = []
        """The names of the methods called, in order."""

    async def create_kernels(
        self,
        agent_id: str,
        orders: Sequence[KernelOrder],
        *,
        deadline: float = 30.0,  # noqa: ARG002  # nothing takes time here
    ) -> Sequence[CreateAnswer]:
        host = self._host("create", agent_id)
        return [host.create(order) for order in orders]

    async def end_kernels(
        self,
        agent_id: str,
        orders: Sequence[EndOrder],
        *,
        deadline: float = 20.0,  # noqa: ARG002  # nothing takes time here
    ) -> Sequence[EndAnswer]:
        host = self._host("end", agent_id)
        for order in orders:
            if order.kernel_id in self.held_up:
                await self.held_up[order.kernel_id].wait()
        return [host.end(order) for order in orders]

    async def remove_kernels(
        self,
        agent_id: str,
        kernel_ids: Sequence[str],
        *,
        deadline: float = 20.0,  # noqa: ARG002  # nothing takes time here
    ) -> Sequence[KernelRemovalAnswer]:
        host = self._host("remove", agent_id)
        return [host.remove(kernel_id) for kernel_id in kernel_ids]

    def _host(self, method: str, agent_id: str) -> HostInMemory:
        self.calls.append(method)
        if agent_id in self.unreachable:
            raise AgentUnreachable(f"agent {agent_id} does not answer")
        return self.hosts[agent_id]
