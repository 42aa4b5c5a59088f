"""What agents report of their attempts, applied. News of an ended attempt changes nothing."""

from collections.abc import Iterable

import structlog
from sqlalchemy import Connection

from wharfinger.contracts.ingest import Event, ImagePullFailed, ImagePullFinished, ImagePullStarted
from wharfinger.manager.pulls import attempts

log = structlog.get_logger()


def apply(conn: Connection, agent_id: str, events: Iterable[Event]) -> bool:
    """Apply events in their order; whether any of them changed something."""
    events = tuple(events)
    own = attempts.of_agent(conn, agent_id, {event.attempt_id for event in events})
    changed = False
    for event in events:
        if event.attempt_id in own and _apply(conn, agent_id, event):
            changed = True
        else:
            log.debug("stale event", agent=agent_id, kind=event.type, attempt=event.attempt_id)
    return changed


def _apply(conn: Connection, agent_id: str, event: Event) -> bool:
    by = f"agent {agent_id}"
    match event:
        case ImagePullStarted():
            return attempts.start(conn, event.attempt_id, by=by)
        case ImagePullFinished():
            return attempts.finish(conn, event.attempt_id, event.evidence, by=by)
        case ImagePullFailed():
            return attempts.fail(conn, event.attempt_id, event.failure.failure(), by=by)
