"""What sessions say over the bus: a doorbell, for the loops and for those who watch."""

from wharfinger.manager.background.channels import ring as publish
from wharfinger.manager.bus.port import Bus, Message

CHANGED = "sessions.changed"
"""The channel that rings when a session or a kernel changed in any way."""


async def ring(bus: Bus) -> None:
    """Something changed: whoever cares reads the database."""
    await publish(bus, CHANGED, Message("", "changed", {}, "changed"))
