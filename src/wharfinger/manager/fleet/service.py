"""The fleet: who is here, what they hold, and what they report."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, select, update

from wharfinger.contracts.ingest import (
    Acknowledgement,
    EngineFacts,
    Registered,
    Registration,
    Report,
)
from wharfinger.domain.errors import StaleIncarnation, Unauthenticated, WharfingerError
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.states import AGENT_TRANSITIONS, AgentStatus
from wharfinger.manager.access import audit
from wharfinger.manager.access.audit import Action
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.access.tokens import join_token_valid
from wharfinger.manager.bus.port import Bus, Message
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.fleet import agents, cluster, inventory
from wharfinger.manager.fleet.calls import AgentCalls
from wharfinger.manager.fleet.views import AgentContact, AgentImageView, AgentView
from wharfinger.manager.loops import Loop
from wharfinger.manager.pulls import attempts, events
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.clock import now
from wharfinger.manager.storage.errors import StorageUnavailable
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.transitions import Transition, history, move

log = structlog.get_logger()

PROGRESS = "pulls.progress"
"""The bus channel of attempts' progress: `{"progress": [AttemptProgress]}`."""
CHANGED = "pulls.changed"
"""The bus channel that rings when attempts or agents changed."""

LOST_AFTER = 15.0
"""Seconds without a heartbeat after which an agent is LOST."""

_REPORTS_PER_SECOND = 300
"""What one database takes well: in larger fleets each agent reports less often."""
_SHORTEST, _LONGEST = 1.0, 3.0
"""Seconds between two reports of one agent."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """What a report's transaction found."""

    agent_id: str
    changed: bool
    stale: Sequence[str]
    acknowledgement: Acknowledgement


ReportReader = Callable[[Connection, str, Report], bool]
"""Takes in its part of an agent's report, in the report's transaction; whether that changed
anything. It is given the agent's id."""


class Fleet:
    """Agents as rows, their registration and reports, and the loop that notices silence."""

    def __init__(
        self,
        storage: Storage,
        bus: Bus,
        vault: Vault,
        *,
        manager_id: str,
        lost_after: float = LOST_AFTER,
        readers: Sequence[ReportReader] = (),
        steady_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._bus = bus
        self._vault = vault
        self._by = f"manager {manager_id}"
        self._lost_after = lost_after
        self._readers = tuple(readers)
        self._steady = steady_clock
        self._listening_since: float | None = None
        self._looked_at = 0.0
        self._report_seconds = _SHORTEST
        self._stale: dict[str, set[str]] = {}
        self.calls = AgentCalls(self._contact, vault)
        # often enough that no look counts as late by itself
        self.silence = Loop("fleet.silence", self.note_silence, min(1.0, lost_after / 6))
        self.stale = Loop("fleet.stale", self._cancel_stale, 5.0)

    async def start(self) -> None:
        """Begin to notice silence."""
        self.silence.start()
        self.stale.start()

    async def stop(self) -> None:
        """Stop the loops and close the connections to agents."""
        await self.silence.stop()
        await self.stale.stop()
        await self.calls.close()

    async def agents(self) -> list[AgentView]:
        """All agents but the retired, by id."""
        return await self._storage.read(_all_shown)

    async def agent(self, agent_id: str) -> AgentView:
        """One agent; raises `UnknownId`."""
        return await self._storage.read(_shown, agent_id)

    async def agent_images(self, agent_id: str, *, who: Principal) -> list[AgentImageView]:
        """What its engine holds, by reference, of what this user may use."""
        return await self._storage.read(agents.images, agent_id, who)

    async def transitions(self, agent_id: str) -> list[Transition]:
        """Its states so far, oldest first."""
        return await self._storage.read(history, AGENT_TRANSITIONS.name, agent_id)

    async def cordon(self, agent_id: str, *, who: Principal) -> AgentView:
        """Close it to new sessions."""
        log.info("agent cordoned", agent=agent_id, by=who.name)
        return await self._storage.write(_cordon, agent_id, cordoned=True, who=who)

    async def uncordon(self, agent_id: str, *, who: Principal) -> AgentView:
        """Open it to new sessions."""
        log.info("agent uncordoned", agent=agent_id, by=who.name)
        return await self._storage.write(_cordon, agent_id, cordoned=False, who=who)

    async def retire(self, agent_id: str, *, who: Principal) -> AgentView:
        """Remove it: its process is refused from now on, and its open attempts end."""
        view = await self._storage.write(_retire, agent_id, who=who)
        await self._ring()
        return view

    async def register(self, said: Registration, bearer: str) -> Registered:
        """An agent's process says who it is: with a join token, or with its own credential."""
        credential = secrets.token_urlsafe(32)
        joined, cluster_id = await self._storage.write(
            _register, said, bearer, credential, self._vault.encrypt(said.call_token)
        )
        log.info("agent registered", agent=said.agent_id, joined=joined, address=said.address)
        return Registered(
            credential=credential if joined else None,
            cluster_id=cluster_id,
            report_seconds=self._report_seconds,
        )

    async def report(self, said: Report, bearer: str) -> Acknowledgement:
        """Take in what an agent says; acknowledged once committed."""
        noted = await self._storage.write(
            _note_report,
            said,
            bearer,
            readers=self._readers,
            report_seconds=self._report_seconds,
        )
        if said.progress:
            progress = [entry.to_wire() for entry in said.progress]
            await self._bus.publish(
                PROGRESS, Message("", "progress", {"progress": progress}, noted.agent_id)
            )
        if noted.stale:
            self._stale.setdefault(noted.agent_id, set()).update(noted.stale)
            self.stale.ring()
        if noted.changed:
            await self._ring()
        return noted.acknowledgement

    async def note_silence(self) -> list[str]:
        """Mark agents LOST, counting only silence while this manager could listen.

        It could not while the database took nothing: reports were refused then.
        """
        at = self._steady()
        ran_late = at - self._looked_at > self._lost_after / 3
        if self._listening_since is None or ran_late:
            self._listening_since = at
        self._looked_at = at
        try:
            silences = await self._storage.read(agents.silences)
            self._report_seconds = min(
                max(len(silences) / _REPORTS_PER_SECOND, _SHORTEST), _LONGEST
            )
            silent = any(silence > self._lost_after for silence in silences)
            if not silent or at - self._listening_since < self._lost_after:
                return []
            lost = await self._storage.write(_lose_silent, self._lost_after, by=self._by)
        except StorageUnavailable:
            self._listening_since = None
            raise
        if lost:
            log.warning("agents lost", agents=lost)
            await self._ring()
        return lost

    async def _cancel_stale(self) -> None:
        stale, self._stale = self._stale, {}
        async with asyncio.TaskGroup() as group:
            for agent_id, attempt_ids in stale.items():
                group.create_task(self._cancel(agent_id, sorted(attempt_ids)))

    async def _cancel(self, agent_id: str, attempt_ids: Sequence[str]) -> None:
        try:
            await self.calls.cancel(agent_id, attempt_ids)
        except WharfingerError as error:
            log.info("stale attempts not cancelled yet", agent=agent_id, error=error.message)

    async def _contact(self, agent_id: str) -> AgentContact | None:
        return await self._storage.read(agents.contact, agent_id)

    async def _ring(self) -> None:
        await self._bus.publish(CHANGED, Message("", "changed", {}, "changed"))


def _all_shown(conn: Connection) -> list[AgentView]:
    return agents.occupied(conn, agents.present(conn))


def _shown(conn: Connection, agent_id: str) -> AgentView:
    (view,) = agents.occupied(conn, (agents.one(conn, agent_id),))
    return view


def _cordon(conn: Connection, agent_id: str, *, cordoned: bool, who: Principal) -> AgentView:
    agents.cordon(conn, agent_id, cordoned=cordoned)
    audit.note(conn, who, Action.AGENT_CORDON if cordoned else Action.AGENT_UNCORDON, agent_id)
    return _shown(conn, agent_id)


def _register(
    conn: Connection, said: Registration, bearer: str, credential: str, call_token_encrypted: str
) -> tuple[bool, str]:
    """Whether it joined (and gets the credential), and the cluster's id.

    Raises `Unauthenticated` for a wrong bearer.
    """
    cluster_id = cluster.identify(conn)
    if join_token_valid(conn, bearer):
        agents.join(
            conn,
            said,
            credential_sha256=_sha256(credential),
            call_token_encrypted=call_token_encrypted,
        )
        return True, cluster_id
    if agents.come_back(
        conn,
        said,
        credential_sha256=_sha256(bearer),
        call_token_encrypted=call_token_encrypted,
    ):
        return False, cluster_id
    raise Unauthenticated("this is neither a join token nor an agent's credential")


def _note_report(
    conn: Connection,
    said: Report,
    bearer: str,
    *,
    readers: Sequence[ReportReader],
    report_seconds: float,
) -> _Noted:
    table = tables.agents
    row = conn.execute(
        select(table).where(table.c.credential_sha256 == _sha256(bearer)).with_for_update()
    ).one_or_none()
    if row is None or row.status == AgentStatus.RETIRED:
        raise Unauthenticated("this is no present agent's credential")
    if row.incarnation != said.incarnation:
        raise StaleIncarnation(f"agent {row.id!r} has a newer process", agentId=row.id)
    by = f"agent {row.id}"
    if said.inventory is not None:
        inventory.replace(conn, row.id, said.inventory)
    changed = events.apply(conn, row.id, said.events)
    conn.execute(
        update(table)
        .where(table.c.id == row.id)
        .values(
            heard_at=now(conn),
            reports_begun=max(said.begun, row.reports_begun),
            engine=_engine_facts(row.engine, said.engine),
            slots=row.slots if said.capacity is None else agents.slots_of(said.capacity),
            disk=agents.disk_of(row.disk, said.disk),
        )
    )
    changed |= attempts.note_missing(conn, row.id, said.incarnation, said.begun, said.in_hand)
    for read in readers:
        changed |= read(conn, row.id, said)
    version = inventory.version(conn, row.id)
    told = version != "" and said.containers is not None
    reconciled = told or (said.engine is not None and said.engine.problem != "")
    if row.status != AgentStatus.UP and reconciled:
        reason = "its report is reconciled" if told else "it reports, its engine does not answer"
        sources = (AgentStatus.JOINING, AgentStatus.LOST)
        changed |= move(
            conn, table, AGENT_TRANSITIONS, row.id, sources, AgentStatus.UP, reason=reason, by=by
        )
    return _Noted(
        agent_id=row.id,
        changed=changed,
        stale=attempts.not_current(conn, row.id, said.in_hand) if said.in_hand else (),
        acknowledgement=Acknowledgement(
            sequence=max((event.sequence for event in said.events), default=0),
            inventory_version=version,
            report_seconds=report_seconds,
        ),
    )


def _engine_facts(known: Mapping[str, Any], said: EngineFacts | None) -> Mapping[str, Any]:
    """What is known of the engine: one that does not answer keeps its kind and version."""
    if said is None:
        return known
    return said.to_wire() if said.kind else {**known, "problem": said.problem}


def _lose_silent(conn: Connection, silence: float, *, by: str) -> list[str]:
    lost = agents.lose_silent(conn, silence, by=by)
    for agent_id in lost:
        failure = Failure(
            FailureClass.AGENT_LOST,
            f"agent {agent_id} was not heard for {silence:g} s: look at its process and network",
        )
        attempts.fail_open_of(conn, agent_id, failure, by=by)
    return lost


def _retire(conn: Connection, agent_id: str, *, who: Principal) -> AgentView:
    by = f"user {who.name}"
    view = agents.retire(conn, agent_id, by=by)
    audit.note(conn, who, Action.AGENT_REMOVE, agent_id)
    retired = Failure(FailureClass.AGENT_LOST, f"agent {agent_id} was retired by an admin")
    attempts.fail_open_of(conn, agent_id, retired, by=by)
    return view


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
