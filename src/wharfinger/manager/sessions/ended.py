"""What agents answer when containers are to end, and are to be removed."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, select, update

from wharfinger.contracts.rpc import (
    EndAnswer,
    EndOutcome,
    KernelContainer,
    KernelLog,
    KernelRemovalAnswer,
)
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.sessions import TERMINAL, Reason
from wharfinger.domain.states import AgentStatus, KernelStatus
from wharfinger.manager.sessions import covering, kernels, leftovers
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.sessions.leftovers import Leftover
from wharfinger.manager.sessions.moments import moment
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.put import put

_LONGEST_PAUSE: Final = 60.0
_UNEXPLAINED: Final = Failure(
    FailureClass.INTERNAL, "the agent answered without saying why the container does not stop"
)


def to_end(conn: Connection) -> list[Leftover]:
    """What is to be ended now on agents that are UP: current kernels, then what is left over."""
    table, agents = tables.kernels, tables.agents
    found = conn.execute(
        select(table.c.agent_id, table.c.id)
        .join(agents, agents.c.id == table.c.agent_id)
        .where(
            table.c.status == KernelStatus.TERMINATING,
            agents.c.status == AgentStatus.UP,
            (table.c.next_try_at.is_(None)) | (table.c.next_try_at <= now(conn)),
        )
        .order_by(table.c.changed_at)
    )
    current = [Leftover(agent_id, kernel_id, want_log=True) for agent_id, kernel_id in found]
    return current + leftovers.due(conn)


def apply_ends(
    conn: Connection, agent_id: str, answers: Sequence[EndAnswer], *, by: str
) -> list[str]:
    """Do what follows from an agent's answers; the kernels whose containers can be removed now.

    A process that is gone is a kernel's end: its slots are free, whatever becomes of the container.
    """
    removable = []
    for answer in answers:
        kernel = next(
            iter(kernels.where(conn, tables.kernels.c.id == answer.kernel_id, lock=True)), None
        )
        if kernel is not None and kernel.agent_id != agent_id:
            kernel = None  # of this agent only the container is left
        if kernel is not None and kernel.is_open and kernel.status is not KernelStatus.TERMINATING:
            continue  # it is current again: nobody may end it
        match answer.outcome:
            case EndOutcome.ENDED:
                _note_ended(conn, agent_id, kernel, answer, by=by)
                removable.append(answer.kernel_id)
            case EndOutcome.ABSENT:
                if kernel is not None:
                    _end(conn, kernel, None, "there is no container of it", by=by)
                leftovers.confirm_removed(conn, agent_id, (answer.kernel_id,))
            case EndOutcome.FAILED:
                failure = answer.failure.failure() if answer.failure else _UNEXPLAINED
                _note_failed(conn, agent_id, answer.kernel_id, kernel, failure)
            case EndOutcome.RUNNING:
                pass  # asked again in the next round
    return removable


def apply_removals(
    conn: Connection, agent_id: str, answers: Sequence[KernelRemovalAnswer]
) -> list[tuple[str, str]]:
    """Which containers are gone; (kernel, the engine's text) of those that newly cannot be
    removed."""
    gone = [answer.kernel_id for answer in answers if answer.failure is None]
    if gone:
        leftovers.confirm_removed(conn, agent_id, gone)
    problems = [
        (answer.kernel_id, answer.failure.detail or answer.failure.message)
        for answer in answers
        if answer.failure is not None
    ]
    return [
        (kernel_id, problem)
        for kernel_id, problem in problems
        if leftovers.note_problem(conn, agent_id, kernel_id, problem)
    ]


def end_without_word(conn: Connection, kernel: Kernel, why: str, *, by: str) -> bool:
    """A TERMINATING kernel whose agent cannot confirm its end in time ends as it was to."""
    return _end(conn, kernel, None, why, by=by)


def _note_ended(
    conn: Connection, agent_id: str, kernel: Kernel | None, answer: EndAnswer, *, by: str
) -> None:
    container_id = answer.container.container_id if answer.container else ""
    if kernel is None:
        return
    if answer.log is not None:
        _keep_log(conn, kernel.id, answer.log)
    if kernel.status is KernelStatus.TERMINATING:
        _end(conn, kernel, answer.container, "its container has ended", by=by)
        leftovers.note(conn, agent_id, kernel.id, container_id)


def _end(
    conn: Connection, kernel: Kernel, container: KernelContainer | None, reason: str, *, by: str
) -> bool:
    if kernel.status in TERMINAL:
        return False
    values: dict[str, Any] = {}
    if container is not None:
        values["container_id"] = container.container_id
        if kernel.exit_code is None:
            values["exit_code"] = container.exit_code
        if kernel.started_at is None:
            values["started_at"] = container.started_at
    info, data = covering.underneath(kernel)
    return kernels.move(
        conn,
        kernel,
        kernel.ends_as or KernelStatus.TERMINATED,
        reason=reason,
        by=by,
        info=info,
        data=data,
        **values,
    )


def _note_failed(
    conn: Connection, agent_id: str, kernel_id: str, kernel: Kernel | None, failure: Failure
) -> None:
    if kernel is None or kernel.status in TERMINAL:
        leftovers.note_problem(conn, agent_id, kernel_id, failure.detail or failure.message)
        return
    next_try_at = now(conn) + min(2.0 ** min(kernel.calls, 10), _LONGEST_PAUSE)
    table = tables.kernels
    conn.execute(
        update(table)
        .where(table.c.id == kernel.id)
        .values(calls=kernel.calls + 1, next_try_at=next_try_at)
    )
    tried = {"failure": failure.to_json(), "nextTryAt": moment(next_try_at)}
    covering.cover(conn, kernel, Reason.RETRYING, tried)


def _keep_log(conn: Connection, kernel_id: str, log: KernelLog) -> None:
    values = {"data": log.data, "truncated": log.truncated}
    put(conn, tables.kernel_logs, {"kernel_id": kernel_id}, values)
