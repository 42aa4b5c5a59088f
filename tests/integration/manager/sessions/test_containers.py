"""What the containers in a report mean: level, not edge, and never from a stale one."""

import pytest
from rig.host_in_memory import HostInMemory
from rig.queues import insert_host, insert_session
from sqlalchemy import Connection, insert, select, update

from wharfinger.contracts.ingest import Report
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.containers import read_containers
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage

CREATING = {"status": KernelStatus.CREATING, "agent_id": "a-1", "image_id": "sha256:1"}
RUNNING = CREATING | {"status": KernelStatus.RUNNING, "container_id": "c", "accepted_begun": 1}


def take_in(conn: Connection, report: Report) -> bool:
    """As the fleet does: the count of reports is kept first."""
    agents = tables.agents
    conn.execute(
        update(agents)
        .where(agents.c.reports_begun < report.begun)
        .values(reports_begun=report.begun)
    )
    return read_containers(conn, "a-1", report)


def of(conn: Connection, session_id: str = "s") -> list[Kernel]:
    return kernels.of_session(conn, session_id)


def left(conn: Connection) -> set[str]:
    return set(conn.scalars(select(tables.leftovers.c.kernel_id)))


async def test_a_lost_create_answer_is_made_up_for(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        host = HostInMemory()
        insert_host(conn, "a-1")
        insert_session(conn, "s", CREATING)
        assert not take_in(conn, host.report(in_hand=["s-0"]))
        host.run("s-0")
        assert take_in(conn, host.report())
        [kernel] = of(conn)
        assert (kernel.status, kernel.started_at) == (KernelStatus.RUNNING, 1000.0)
        assert kernel.container_id == "c-s-0-1"
        assert not take_in(conn, host.report())
        assert left(conn) == set()

    await storage.write(story)


async def test_a_container_that_has_ended_already_takes_its_kernel_further_at_once(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        host = HostInMemory()
        insert_host(conn, "a-1")
        insert_session(conn, "s", CREATING)
        host.run("s-0")
        host.exit("s-0", 0)
        assert take_in(conn, host.report())
        [kernel] = of(conn)
        assert (kernel.status, kernel.exit_code) == (KernelStatus.TERMINATING, 0)
        assert (kernel.ends_as, kernel.status_info) == (
            KernelStatus.TERMINATED,
            Reason.CONTAINER_ENDED,
        )

    await storage.write(story)


@pytest.mark.parametrize(
    ("position", "code", "ends_all"), [(0, 0, True), (0, 3, True), (1, 3, True), (1, 0, False)]
)
async def test_the_main_kernels_end_and_any_bad_end_is_the_sessions(
    storage: Storage, position: int, code: int, ends_all: bool
) -> None:
    def story(conn: Connection) -> None:
        host = HostInMemory()
        insert_host(conn, "a-1")
        for kernel_id in insert_session(conn, "s", RUNNING, RUNNING):
            host.run(kernel_id)
        host.exit(f"s-{position}", code)
        assert take_in(conn, host.report())
        ended, other = of(conn)[position], of(conn)[1 - position]
        assert (ended.status, ended.exit_code) == (KernelStatus.TERMINATING, code)
        assert (other.status is KernelStatus.TERMINATING) is ends_all
        assert other.status_info is (Reason.SESSION_ENDED if ends_all else None)

    await storage.write(story)


async def test_a_process_that_ran_out_of_memory_says_so(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        host = HostInMemory()
        insert_host(conn, "a-1")
        insert_session(conn, "s", RUNNING)
        host.run("s-0")
        host.exit("s-0", 137)
        killed = host.containers["s-0"].model_copy(update={"out_of_memory": True})
        host.containers["s-0"] = killed
        take_in(conn, host.report())
        assert of(conn)[0].status_data == {"exitCode": 137, "outOfMemory": True}

    await storage.write(story)


async def test_a_container_vanished_when_two_later_reports_do_not_show_it(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        host = HostInMemory()
        insert_host(conn, "a-1")
        insert_session(conn, "s", RUNNING, RUNNING)
        host.run("s-1")
        assert not take_in(conn, host.report())
        assert take_in(conn, host.report())
        vanished, other = of(conn)
        assert (vanished.status, vanished.status_info) == (
            KernelStatus.ERROR,
            Reason.CONTAINER_VANISHED,
        )
        assert vanished.failure is not None
        assert "a-1" in vanished.failure.message
        assert other.status is KernelStatus.TERMINATING

    await storage.write(story)


async def test_a_new_incarnation_counts_its_reports_anew(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        host = HostInMemory(begun=0)
        insert_host(conn, "a-1", reports_begun=0)
        insert_session(conn, "s", RUNNING | {"accepted_begun": 500})
        blind = host.report("i2").model_copy(update={"containers": None})
        assert not take_in(conn, blind)
        assert not take_in(conn, host.report("i2"))
        assert take_in(conn, host.report("i2"))
        assert of(conn)[0].status is KernelStatus.ERROR

    await storage.write(story)


async def test_an_older_report_and_an_engine_that_does_not_say_mean_nothing(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        host = HostInMemory()
        insert_host(conn, "a-1")
        insert_session(conn, "s", RUNNING)
        host.begun = 50
        blind = host.report().model_copy(update={"containers": None})
        assert not take_in(conn, blind)
        host.begun = 10
        assert not take_in(conn, host.report())
        assert of(conn)[0].status is KernelStatus.RUNNING

    await storage.write(story)


async def test_containers_nobody_claims_are_left_over_until_they_are_gone(
    storage: Storage,
) -> None:
    def story(conn: Connection) -> None:
        host = HostInMemory()
        insert_host(conn, "a-1")
        insert_host(conn, "a-2")
        insert_session(conn, "ended", RUNNING | {"status": KernelStatus.ERROR, "ended_at": 1.0})
        insert_session(conn, "elsewhere", RUNNING | {"agent_id": "a-2"})
        insert_session(conn, "current", RUNNING)
        for kernel_id in ("ended-0", "elsewhere-0", "current-0", "nobody"):
            host.run(kernel_id)
        assert take_in(conn, host.report())
        assert left(conn) == {"ended-0", "elsewhere-0", "nobody"}
        assert not take_in(conn, host.report())
        del host.containers["nobody"]
        take_in(conn, host.report())
        assert left(conn) == {"ended-0", "elsewhere-0"}

    await storage.write(story)


async def test_a_leftover_that_is_gone_is_told_of_no_longer(storage: Storage) -> None:
    def story(conn: Connection) -> None:
        insert_host(conn, "a-1")
        covering = {"agentId": "a-1", "problem": "busy", "before": _ENDED_BY_USER}
        said = {"status_info": Reason.CONTAINER_LEFT, "status_data": covering, "ended_at": 1.0}
        insert_session(conn, "s", RUNNING | {"status": KernelStatus.TERMINATED, **said})
        conn.execute(
            insert(tables.leftovers).values(
                agent_id="a-1",
                kernel_id="s-0",
                container_id="c",
                problem="busy",
                tries=1,
                next_try_at=0.0,
                found_at=0.0,
            )
        )
        take_in(conn, HostInMemory().report())
        assert left(conn) == set()
        assert of(conn)[0].status_info is Reason.ENDED_BY_USER
        assert of(conn)[0].status_data is None

    await storage.write(story)


_ENDED_BY_USER = {"statusInfo": "ended-by-user", "statusData": None}
