"""Which containers of an engine are this agent's, by name and by label.

Another cluster may use the same engine, and so may people: what is not ours is neither reported
nor touched.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from wharfinger.contracts.rpc import KernelOrder

SESSION: Final = "wharfinger.session"
KERNEL: Final = "wharfinger.kernel"
OWNER: Final = "wharfinger.owner"
CLUSTER: Final = "wharfinger.cluster"
AGENT: Final = "wharfinger.agent"
GPUS: Final = "wharfinger.gpus"
"""Ids of the devices it holds, by commas."""


def container_name(kernel_id: str) -> str:
    """The name of a kernel's container: there can be no second one."""
    return f"wharfinger-{kernel_id}"


class Ours:
    """The marks of one agent of one cluster. Its manager says which cluster that is."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._known = asyncio.Event()
        self.cluster_id = ""
        """Empty until the agent has registered."""

    def join(self, cluster_id: str) -> None:
        """The manager's cluster is this one."""
        self.cluster_id = cluster_id
        if cluster_id:
            self._known.set()

    async def known(self) -> None:
        """Return once it is known what is ours."""
        await self._known.wait()

    def labels(self, order: KernelOrder, gpus: Sequence[str]) -> dict[str, str]:
        """What a container of this order is marked with."""
        labels = {
            SESSION: order.session_id,
            KERNEL: order.kernel_id,
            OWNER: order.owner,
            CLUSTER: self.cluster_id,
            AGENT: self._agent_id,
        }
        return labels | {GPUS: ",".join(gpus)} if gpus else labels

    def kernel_of(self, labels: Mapping[str, str]) -> str | None:
        """The kernel of a container with these labels; None when it is not ours."""
        if not self.cluster_id or labels.get(CLUSTER) != self.cluster_id:
            return None
        return labels.get(KERNEL) or None if labels.get(AGENT) == self._agent_id else None
