"""What sessions say over the bus: a doorbell, for the loops and for those who watch."""

from typing import Final

from wharfinger.domain.states import KernelStatus
from wharfinger.manager.background.channels import ring as publish
from wharfinger.manager.bus.port import Bus, Message

CHANGED: Final = "sessions.changed"
"""The channel that rings when a session or a kernel changed in any way: `{entered}`, the state
that kernels came to where that is known, or none."""


async def ring(bus: Bus, entered: KernelStatus | None = None) -> None:
    """Something changed: whoever cares reads the database. Those who move kernels on from the state
    `entered` do so first."""
    await publish(bus, CHANGED, Message("", "changed", {"entered": entered}, f"changed {entered}"))
