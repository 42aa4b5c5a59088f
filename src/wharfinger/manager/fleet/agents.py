"""The agents' rows: joining, coming back, cordoned, lost, retired."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from wharfinger.contracts.ingest import Capacity, EngineFacts, Registration
from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.disk import differs
from wharfinger.domain.errors import Conflict, Forbidden, UnknownId
from wharfinger.domain.platforms import Platform
from wharfinger.domain.sessions import WITH_CONTAINER
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import AGENT_TRANSITIONS, AgentStatus
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.catalogue import entries
from wharfinger.manager.fleet.views import AgentContact, AgentImageView, AgentView
from wharfinger.manager.sessions import occupancy
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.transitions import begin, move

_agents = tables.agents
_REPORTING = (AgentStatus.JOINING, AgentStatus.UP)
_NOT_KNOWN = EngineFacts(kind="unknown", version="", store="", problem="the engine never answered")


def present(conn: Connection) -> list[AgentView]:
    """All agents but the retired, by id."""
    at = now(conn)
    rows = conn.execute(
        select(_agents).where(_agents.c.status != AgentStatus.RETIRED).order_by(_agents.c.id)
    )
    return [_view(row, at) for row in rows]


def one(conn: Connection, agent_id: str) -> AgentView:
    """One agent, retired or not; raises `UnknownId`."""
    row = conn.execute(select(_agents).where(_agents.c.id == agent_id)).one_or_none()
    if row is None:
        raise UnknownId(f"there is no agent {agent_id!r}", id=agent_id)
    return _view(row, now(conn))


def occupied(conn: Connection, views: Iterable[AgentView]) -> list[AgentView]:
    """These agents with what their kernels occupy."""
    taken, sessions = occupancy.of_agents(conn), occupancy.sessions_on_agents(conn)
    return [
        replace(
            view,
            occupied=taken.get(view.id, Slots()).to_json(),
            sessions=sessions.get(view.id, 0),
        )
        for view in views
    ]


def contact(conn: Connection, agent_id: str) -> AgentContact | None:
    """Where the agent is called, or None when there is none of this id, or it was removed."""
    row = conn.execute(
        select(_agents).where(_agents.c.id == agent_id, _agents.c.status != AgentStatus.RETIRED)
    ).one_or_none()
    if row is None:
        return None
    return AgentContact(row.id, row.address, row.incarnation, row.call_token_encrypted)


def platforms(conn: Connection, agent_ids: Collection[str]) -> dict[str, Platform]:
    """What the hosts of those agents run that are not retired."""
    rows = conn.execute(
        select(_agents.c.id, _agents.c.os, _agents.c.architecture, _agents.c.variant).where(
            _agents.c.id.in_(agent_ids), _agents.c.status != AgentStatus.RETIRED
        )
    )
    return {row.id: Platform.parse(row.os, row.architecture, row.variant) for row in rows}


def images(conn: Connection, agent_id: str, who: Principal) -> list[AgentImageView]:
    """What the agent's engine holds, by reference, of what this user may use."""
    held = tables.agent_images
    may_see = entries.visible(conn, who)
    rows = conn.execute(select(held).where(held.c.agent_id == agent_id).order_by(held.c.reference))
    return [
        AgentImageView(r.reference, r.root_digest, r.image_id, r.size)
        for r in rows
        if may_see(r.reference)
    ]


def join(
    conn: Connection, said: Registration, *, credential_sha256: str, call_token_encrypted: str
) -> None:
    """A new agent, by a join token.

    An agent that joined and never reported may join again (the answer with its credential was
    lost); a retired one's name is free. Any other name in use is refused as `Conflict`.
    """
    row = conn.execute(
        select(_agents).where(_agents.c.id == said.agent_id).with_for_update()
    ).one_or_none()
    if row is not None:
        never_reported = row.status == AgentStatus.JOINING and row.reports_begun == 0
        if row.status != AgentStatus.RETIRED and not never_reported:
            raise Conflict(
                f"an agent {said.agent_id!r} exists: start it with its own state folder, "
                f"or free the name with 'wharfinger agent rm {said.agent_id}'",
                agentId=said.agent_id,
            )
        conn.execute(delete(_agents).where(_agents.c.id == said.agent_id))
    at = now(conn)
    conn.execute(
        insert(_agents).values(
            id=said.agent_id,
            status=AgentStatus.JOINING,
            cordoned=False,
            slots=slots_of(said.capacity),
            credential_sha256=credential_sha256,
            heard_at=at,
            created_at=at,
            **_said(said, call_token_encrypted),
        )
    )
    begin(conn, AGENT_TRANSITIONS, said.agent_id, reason="joined with a join token", by="agent")


def come_back(
    conn: Connection, said: Registration, *, credential_sha256: str, call_token_encrypted: str
) -> bool:
    """A known agent's new process, by its credential; False when the credential is unknown.

    Its incarnation becomes the current one. A retired agent is refused as `Forbidden`.
    """
    row = conn.execute(
        select(_agents).where(_agents.c.credential_sha256 == credential_sha256).with_for_update()
    ).one_or_none()
    if row is None:
        return False
    if row.status == AgentStatus.RETIRED:
        raise Forbidden(
            f"agent {row.id!r} was retired: to join anew it needs an empty state folder and a join token"
        )
    if row.id != said.agent_id:
        raise Conflict(
            f"this credential is agent {row.id!r}'s, not {said.agent_id!r}'s", agentId=row.id
        )
    conn.execute(
        update(_agents)
        .where(_agents.c.id == row.id)
        .values(heard_at=now(conn), **_said(said, call_token_encrypted))
    )
    return True


def cordon(conn: Connection, agent_id: str, *, cordoned: bool) -> AgentView:
    """Close the agent to new sessions, or open it; preloads still go there."""
    changed = conn.execute(
        update(_agents)
        .where(_agents.c.id == agent_id, _agents.c.status != AgentStatus.RETIRED)
        .values(cordoned=cordoned)
    )
    if changed.rowcount != 1:
        raise UnknownId(f"there is no agent {agent_id!r}", id=agent_id)
    return one(conn, agent_id)


def retire(conn: Connection, agent_id: str, *, by: str) -> AgentView:
    """Remove the agent: its credential is void and its rows of the mapping end with it.

    Raises `Conflict` while sessions run there, unless it is LOST: nobody could end them any more.
    """
    agent = one(conn, agent_id)
    if agent.status in _REPORTING:
        _refuse_while_running(conn, agent_id)
    move(
        conn,
        _agents,
        AGENT_TRANSITIONS,
        agent_id,
        (AgentStatus.JOINING, AgentStatus.UP, AgentStatus.LOST),
        AgentStatus.RETIRED,
        reason="retired by an admin",
        by=by,
    )
    conn.execute(delete(tables.agent_images).where(tables.agent_images.c.agent_id == agent_id))
    return one(conn, agent_id)


def _refuse_while_running(conn: Connection, agent_id: str) -> None:
    kernels = tables.kernels
    running = conn.scalars(
        select(kernels.c.session_id)
        .where(kernels.c.agent_id == agent_id, kernels.c.status.in_(WITH_CONTAINER))
        .distinct()
        .order_by(kernels.c.session_id)
    ).all()
    if running:
        raise Conflict(
            f"sessions run on agent {agent_id}: cordon it, and terminate them or let them end",
            agentId=agent_id,
            sessions=list(running),
        )


def silences(conn: Connection) -> list[float]:
    """The seconds since each agent that should report was heard."""
    at = now(conn)
    heard = conn.execute(select(_agents.c.heard_at).where(_agents.c.status.in_(_REPORTING)))
    return [at - heard_at for heard_at in heard.scalars()]


def lose_silent(conn: Connection, silence: float, *, by: str) -> list[str]:
    """Mark LOST every agent not heard for `silence` seconds; the ids of those."""
    silent = conn.execute(
        select(_agents.c.id)
        .where(_agents.c.status.in_(_REPORTING), _agents.c.heard_at < now(conn) - silence)
        .order_by(_agents.c.id)
        .with_for_update()
    ).scalars()
    return [
        agent_id
        for agent_id in silent.all()
        if move(
            conn,
            _agents,
            AGENT_TRANSITIONS,
            agent_id,
            _REPORTING,
            AgentStatus.LOST,
            reason=f"no heartbeat for {silence:g} s",
            by=by,
        )
    ]


def slots_of(capacity: Capacity | None) -> dict[str, Any]:
    """What sessions may use of a host, as its row has it; nothing while the host has not told."""
    if capacity is None:
        return Slots().to_json()
    return Slots(capacity.cpu, capacity.mem, capacity.gpu).to_json()


def disk_of(known: Mapping[str, int] | None, said: DiskSpace | None) -> Mapping[str, int] | None:
    """A host's disk, as its row is to have it: what differs little stays as it is."""
    seen = None if said is None else {"free": said.free, "total": said.total}
    return seen if differs(known, seen) else known


def _said(said: Registration, call_token_encrypted: str) -> Mapping[str, Any]:
    return {
        "scaling_group": said.scaling_group,
        "os": said.os,
        "architecture": said.architecture,
        "variant": said.variant,
        "version": said.version,
        "engine": (said.engine or _NOT_KNOWN).to_wire(),
        "address": said.address,
        "incarnation": said.incarnation,
        "call_token_encrypted": call_token_encrypted,
        "inventory_version": "",
        "reports_begun": 0,
    }


def _view(row: Row[Any], at: float) -> AgentView:
    return AgentView(
        id=row.id,
        scaling_group=row.scaling_group,
        status=AgentStatus(row.status),
        cordoned=row.cordoned,
        os=row.os,
        architecture=row.architecture,
        variant=row.variant,
        version=row.version,
        engine=EngineFacts.model_validate(row.engine),
        slots=row.slots,
        heard_seconds_ago=max(0.0, at - row.heard_at),
        disk=row.disk,
    )
