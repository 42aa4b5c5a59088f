"""What agents answer when they are asked for containers, and what it means when they do not."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, func, select, update

from wharfinger.contracts.rpc import CreateAnswer, CreateOutcome, KernelOrder
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import KERNEL_TRANSITIONS, AgentStatus, KernelStatus
from wharfinger.manager.access.users import user_names
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.sessions import endings, failing, fetching, kernels, observing
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now

MOST_CALLS: Final = 10
"""Calls in a row an agent that reports may leave unanswered before the session ends."""
MOST_IMAGES_GONE: Final = 5
"""How often one kernel goes back for an image that was taken away."""
ASK_AGAIN_SECONDS: Final = 2.0
"""How long an agent without the image is not asked while as many pulls are in flight as allowed."""

_UNEXPLAINED: Final = Failure(
    FailureClass.INTERNAL, "the agent answered without saying why it made no container"
)
_ENDED_BEFORE: Final = Failure(
    FailureClass.INTERNAL, "the agent was told before that this container is to end"
)


def orders(conn: Connection) -> dict[str, list[KernelOrder]]:
    """The containers to be made now, by agent, of those that are UP."""
    found = kernels.where(conn, tables.kernels.c.status == KernelStatus.CREATING)
    creating = [kernel for kernel in found if kernel.due]
    if not creating:
        return {}
    agents = tables.agents
    up = set(
        conn.scalars(
            select(agents.c.id).where(
                agents.c.status == AgentStatus.UP,
                agents.c.id.in_({kernel.agent_id for kernel in creating}),
            )
        )
    )
    names = user_names(conn, {kernel.owner_id for kernel in creating})
    by_agent: dict[str, list[KernelOrder]] = {}
    for kernel in creating:
        if kernel.agent_id is not None and kernel.agent_id in up:
            owner = names.get(kernel.owner_id, kernel.owner_id)
            by_agent.setdefault(kernel.agent_id, []).append(_order(kernel, owner))
    return by_agent


def apply_answers(
    conn: Connection,
    agent_id: str,
    asked: Sequence[str],
    answers: Sequence[CreateAnswer],
    limits: Limits,
    *,
    by: str,
) -> bool:
    """Do what follows from an agent's answers about the kernels it was asked for; whether anything
    moved. One it leaves out counts as not answered."""
    changed = False
    for answer in answers:
        for kernel in _creating(conn, agent_id, (answer.kernel_id,)):
            changed |= _apply(conn, kernel, answer, limits, by=by)
    left_out = set(asked) - {answer.kernel_id for answer in answers}
    return note_unanswered(conn, agent_id, sorted(left_out), by=by) or changed


def note_unanswered(conn: Connection, agent_id: str, kernel_ids: Sequence[str], *, by: str) -> bool:
    """A call about these kernels was not answered: too many end the session. An agent that does
    not report either is LOST soon, and its kernels are the sweep's; whether anything moved."""
    changed = False
    for kernel_id in kernel_ids:
        for kernel in _creating(conn, agent_id, (kernel_id,)):
            if kernel.calls + 1 < MOST_CALLS:
                _count_calls(conn, kernel, kernel.calls + 1)
                continue
            silent = Failure(
                FailureClass.AGENT_LOST,
                f"agent {agent_id} reports, but answered none of {MOST_CALLS} calls: "
                "look at its address and the network towards it",
            )
            changed |= endings.fail(conn, kernel, silent, by=by)
    return changed


def _apply(
    conn: Connection, kernel: Kernel, answer: CreateAnswer, limits: Limits, *, by: str
) -> bool:
    match answer.outcome:
        case CreateOutcome.STARTED if answer.container is not None:
            return observing.started(conn, kernel, answer.container, by=by)
        case CreateOutcome.CREATING:
            _count_calls(conn, kernel, 0)
            return False
        case CreateOutcome.IMAGE_GONE:
            return _fetch_again(conn, kernel, limits, by=by)
        case CreateOutcome.ENDED:
            return failing.apply(conn, kernel, _ENDED_BEFORE, by=by)
        case _:
            failure = answer.failure.failure() if answer.failure else _UNEXPLAINED
            return failing.apply(conn, kernel, failure, by=by)


def _fetch_again(conn: Connection, kernel: Kernel, limits: Limits, *, by: str) -> bool:
    """Its image was taken away in the meantime: a new attempt brings the same digest again. While
    the limits leave it no place among the pulls, its agent is asked again a little later."""
    if _images_gone(conn, kernel) >= MOST_IMAGES_GONE:
        taken = Failure(
            FailureClass.ENGINE_ERROR,
            f"its image was taken away from agent {kernel.agent_id} {MOST_IMAGES_GONE} times "
            "before its container was made: look for what prunes images there",
        )
        return endings.fail(conn, kernel, taken, by=by)
    if not limits.room(conn).has(fetching.place(kernel)):
        _ask_later(conn, kernel)
        return kernels.explain(conn, kernel, Reason.PULLS_LIMITED, {"agentId": kernel.agent_id})
    return fetching.fetch(
        conn,
        kernel,
        reason="the image was taken away before its container was made",
        by=by,
        info=Reason.IMAGE_GONE,
        data={"agentId": kernel.agent_id},
        image_id=None,
        next_try_at=None,
    )


def _images_gone(conn: Connection, kernel: Kernel) -> int:
    log = tables.transitions
    count = conn.scalar(
        select(func.count())
        .select_from(log)
        .where(
            log.c.entity == KERNEL_TRANSITIONS.name,
            log.c.entity_id == kernel.id,
            log.c["from"] == KernelStatus.CREATING,
            log.c.to == KernelStatus.PREPARING,
        )
    )
    return count or 0


def _creating(conn: Connection, agent_id: str, kernel_ids: Sequence[str]) -> list[Kernel]:
    """Those of these that this agent is still to make a container for."""
    table = tables.kernels
    return kernels.where(
        conn,
        table.c.id.in_(kernel_ids),
        table.c.agent_id == agent_id,
        table.c.status == KernelStatus.CREATING,
        lock=True,
    )


def _count_calls(conn: Connection, kernel: Kernel, calls: int) -> None:
    if kernel.calls != calls:
        table = tables.kernels
        conn.execute(update(table).where(table.c.id == kernel.id).values(calls=calls))


def _ask_later(conn: Connection, kernel: Kernel) -> None:
    table = tables.kernels
    conn.execute(
        update(table)
        .where(table.c.id == kernel.id)
        .values(calls=0, next_try_at=now(conn) + ASK_AGAIN_SECONDS)
    )


def _order(kernel: Kernel, owner: str) -> KernelOrder:
    assert kernel.image_id is not None, "what is created is on its host"
    return KernelOrder(
        kernel_id=kernel.id,
        session_id=kernel.session_id,
        owner=owner,
        image_id=kernel.image_id,
        reference=kernel.reference,
        command=kernel.command,
        environment=dict(kernel.environment),
        cpu=kernel.slots.cpu,
        mem=kernel.slots.mem,
        gpu=kernel.slots.gpu,
    )
