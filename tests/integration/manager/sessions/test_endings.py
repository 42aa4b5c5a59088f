"""How the kernels of a session end together."""

import pytest
from rig.queues import insert_session
from sqlalchemy import Connection

from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions import endings, kernels
from wharfinger.manager.storage.port import Storage


@pytest.mark.parametrize(
    ("culprit", "ends_as", "becomes"),
    [
        ("s-0", KernelStatus.TERMINATED, KernelStatus.TERMINATED),
        (None, KernelStatus.TERMINATED, KernelStatus.CANCELLED),
        (None, KernelStatus.CANCELLED, KernelStatus.CANCELLED),
        ("s-0", KernelStatus.ERROR, KernelStatus.ERROR),
    ],
    ids=["its session was done", "terminated", "cancelled", "its session failed"],
)
async def test_what_is_created_when_its_session_ends_is_cancelled_only_if_somebody_did(
    storage: Storage, culprit: str | None, ends_as: KernelStatus, becomes: KernelStatus
) -> None:
    def story(conn: Connection) -> None:
        bound = {"agent_id": "a-1", "image_id": "sha256:1"}
        statuses = (KernelStatus.RUNNING, KernelStatus.CREATING)
        insert_session(conn, "s", *({"status": status, **bound} for status in statuses))
        info = Reason.ENDED_BY_USER if culprit is None else Reason.CONTAINER_ENDED
        assert endings.end(conn, "s", ends_as, reason="test", by="test", info=info, culprit=culprit)
        _, creating = kernels.of_session(conn, "s")
        assert (creating.status, creating.ends_as) == (KernelStatus.TERMINATING, becomes)
        assert creating.status_info is (info if culprit is None else Reason.SESSION_ENDED)

    await storage.write(story)
