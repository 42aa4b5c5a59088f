"""What the task framework says over the bus: doorbells between managers, progress to watchers."""

import structlog

from wharfinger.domain.errors import WharfingerError
from wharfinger.manager.bus.port import Bus, Message

DOORBELL = "tasks"
"""The channel every manager listens to."""

CANCEL = "cancel"
"""`{taskId}`: somebody asked to cancel it; whoever runs it looks."""
ABANDONED = "abandoned"
"""Some tasks were handed over; whoever can takes them."""
TURN = "turn"
"""A task that others may have waited for has ended; whoever can takes them."""

UPDATED = "bgtask_updated"
"""`{current, total, message, items}`, with id `epoch-sequence`; items are those that changed."""
ENDED = "bgtask_ended"
"""The task's row has reached its end."""

log = structlog.get_logger()


def of_task(task_id: str) -> str:
    """The channel of one task."""
    return f"task:{task_id}"


async def ring(bus: Bus, channel: str, message: Message) -> None:
    """Publish what may get lost: whoever waits for it looks into the database as well."""
    try:
        await bus.publish(channel, message)
    except WharfingerError as error:
        log.warning("bus did not take a message", channel=channel, error=error.to_json())


async def ring_end(bus: Bus, task_id: str) -> None:
    """Tell the watchers of a task that its row has reached its end."""
    await ring(bus, of_task(task_id), Message("", ENDED, {}))
