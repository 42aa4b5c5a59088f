"""What follows a kernel's failure: here again, on another agent, or its session's end."""

from typing import Any

import pytest
from rig.queues import DIGEST, avoid, insert_host, insert_image, insert_session, insert_user
from sqlalchemy import Connection, select, update

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.domain.retries import MOST_AGENTS
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.sessions import failing, kernels
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.images import PlatformImage, ResolvedImage

PULLING: dict[str, Any] = {"status": KernelStatus.PULLING, "agent_id": "a-1"}
NOT_FOUND = Failure(FailureClass.NOT_FOUND, "there is no such image", "manifest unknown")
NO_SPACE = Failure(FailureClass.NO_SPACE, "its disk is full")
UNSUPPORTED = Failure(FailureClass.UNSUPPORTED, "there is no such command in the image")
NETWORK = Failure(FailureClass.NETWORK, "refused")
LOST = Failure(FailureClass.AGENT_LOST, "not heard")


def fail(conn: Connection, failure: Failure, session_id: str = "s") -> Kernel:
    """The session's first kernel after this failure."""
    assert failing.apply(conn, kernels.of_session(conn, session_id)[0], failure, by="test")
    return kernels.of_session(conn, session_id)[0]


def bind(conn: Connection, agent_id: str = "a-1") -> None:
    conn.execute(update(tables.kernels).values(status=KernelStatus.PULLING, agent_id=agent_id))


async def test_an_image_that_does_not_exist_ends_the_session_at_once(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        insert_host(conn, "a-1")
        insert_host(conn, "a-2")
        insert_session(conn, "s", PULLING, {"status": KernelStatus.PREPARED, "agent_id": "a-2"})
        kernel = fail(conn, NOT_FOUND)
        assert (kernel.status, kernel.failure) == (KernelStatus.ERROR, NOT_FOUND)
        other = kernels.of_session(conn, "s")[1]
        assert (other.status, other.status_info) == (KernelStatus.ERROR, Reason.SESSION_ENDED)
        assert other.failure is None

    await storage.write(story)


@pytest.mark.parametrize("ended", [KernelStatus.TERMINATING, KernelStatus.TERMINATED])
@pytest.mark.parametrize("status", [KernelStatus.CREATING, KernelStatus.PREPARING])
async def test_what_cannot_start_once_another_kernel_has_ended_ends_the_session(
    storage: Storage, ended: KernelStatus, status: KernelStatus
) -> None:
    def story(conn: Connection) -> None:
        insert_host(conn, "a-1")
        sidecar: dict[str, Any] = {"status": ended, "agent_id": "a-1"}
        if ended is KernelStatus.TERMINATED:
            sidecar["ended_at"] = now(conn)
        insert_session(conn, "s", {"status": status, "agent_id": "a-1"}, sidecar)
        kernel = fail(conn, NETWORK)
        assert kernel.status is not KernelStatus.PENDING
        assert kernel.failure == NETWORK

    await storage.write(story)


async def test_a_failure_that_may_pass_is_tried_again_here_then_elsewhere(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        insert_host(conn, "a-1")
        insert_host(conn, "a-2")
        insert_session(conn, "s", PULLING)
        for tries in (1, 2, 3):
            kernel = fail(conn, NETWORK)
            assert (kernel.status, kernel.agent_id) == (KernelStatus.PENDING, None)
            assert (kernel.tries, kernel.tried_on) == (tries, "a-1")
            assert (kernel.status_info, kernel.due) == (Reason.RETRYING, False)
            bind(conn)
        kernel = fail(conn, NETWORK)
        assert (kernel.tries, kernel.agents_failed, kernel.due) == (0, 1, True)
        avoided = conn.execute(select(tables.avoided_images)).one()
        assert (avoided.agent_id, avoided.root_digest) == ("a-1", DIGEST)

    await storage.write(story)


@pytest.mark.parametrize(
    ("failure", "avoided"),
    [(NO_SPACE, {"avoidedAgentId": "a-1"}), (UNSUPPORTED, {})],
    ids=["the host's", "the request's"],
)
async def test_a_kernel_tells_which_agent_is_avoided_if_any_is(
    storage: Storage, failure: Failure, avoided: dict[str, str]
) -> None:
    def story(conn: Connection) -> None:
        insert_host(conn, "a-1")
        insert_host(conn, "a-2")
        insert_session(conn, "s", {"status": KernelStatus.CREATING, "agent_id": "a-1"})
        assert fail(conn, failure).status_data == {"failure": failure.to_json(), **avoided}
        assert len(conn.execute(select(tables.avoided_images)).all()) == len(avoided)

    await storage.write(story)


async def test_so_many_agents_and_no_more(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        for number in range(MOST_AGENTS + 2):
            insert_host(conn, f"a-{number}")
        insert_session(conn, "s", PULLING)
        for number in range(MOST_AGENTS - 1):
            bind(conn, f"a-{number}")
            assert fail(conn, NO_SPACE).status is KernelStatus.PENDING
        bind(conn, "a-9")
        insert_host(conn, "a-9")
        assert fail(conn, NO_SPACE).status is KernelStatus.ERROR

    await storage.write(story)


async def test_a_failure_of_a_lost_agent_does_not_count(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        insert_host(conn, "a-1", status=AgentStatus.LOST)
        insert_session(conn, "s", PULLING)
        for _ in range(10):
            kernel = fail(conn, LOST)
            assert (kernel.status, kernel.status_info) == (KernelStatus.PENDING, Reason.AGENT_LOST)
            assert (kernel.tries, kernel.agents_failed) == (0, 0)
            bind(conn)

    await storage.write(story)


@pytest.mark.parametrize(
    "other",
    [
        {"cordoned": True},
        {"status": AgentStatus.LOST},
        {"status": AgentStatus.JOINING},
        {"scaling_group": "forbidden"},
        {"scaling_group": "unwanted"},
        {"architecture": "arm64"},
        {"slots": Slots(cpu=1)},
        {"avoided": True},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_agents_that_could_not_take_it_are_no_others(
    storage: Storage, other: dict[str, Any]
) -> None:
    def story(conn: Connection) -> None:
        insert_user(conn, "ada", scaling_groups=["default", "unwanted"])
        insert_image(conn)
        insert_host(conn, "a-1")
        told = dict(other)
        avoided = told.pop("avoided", False)
        insert_host(conn, "a-2", **told)
        if avoided:
            avoid(conn, "a-2", until=now(conn) + 60)
        insert_session(conn, "s", PULLING, scaling_group="default")
        assert fail(conn, NO_SPACE).status is KernelStatus.ERROR

    await storage.write(story)


async def test_another_that_could_take_it_is_tried(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        insert_image(conn)
        insert_host(conn, "a-1")
        insert_host(conn, "a-2")
        avoid(conn, "a-2", until=now(conn) - 1)
        insert_session(conn, "s", PULLING)
        assert fail(conn, NO_SPACE).status is KernelStatus.PENDING

    await storage.write(story)


async def test_an_agent_of_a_platform_the_image_has_though_no_host_asked_for_it_is_another(
    storage: Storage,
) -> None:
    amd64, arm64 = Platform("linux", "amd64"), Platform("linux", "arm64")

    def story(conn: Connection) -> None:
        variant = PlatformImage(amd64, DIGEST, DIGEST, ())
        reference = Reference.parse("h.test/image:v1")
        resolved.keep(conn, ResolvedImage(reference, DIGEST, "index", (variant,), (arm64,)))
        insert_host(conn, "a-1")
        insert_host(conn, "a-2", architecture="arm64")
        insert_session(conn, "s", PULLING)
        assert fail(conn, NO_SPACE).status is KernelStatus.PENDING

    await storage.write(story)
