"""Agents and what they hold, as read from the database."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wharfinger.contracts.ingest import EngineFacts
from wharfinger.domain.platforms import Platform
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import AgentStatus


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent. `heard_seconds_ago` is by the database's clock. What it is `occupied` by (slots,
    and how many sessions) is told where agents are shown. `disk` is `{free, total}` in bytes, of the
    file system that holds its images; None where that is not told."""

    id: str
    scaling_group: str
    status: AgentStatus
    cordoned: bool
    os: str
    architecture: str
    variant: str
    version: str
    engine: EngineFacts
    slots: Mapping[str, Any]
    heard_seconds_ago: float
    disk: Mapping[str, int] | None = None
    occupied: Mapping[str, Any] = field(default_factory=lambda: Slots().to_json())
    sessions: int = 0

    @property
    def platform(self) -> Platform:
        """What its host runs."""
        return Platform.parse(self.os, self.architecture, self.variant)


@dataclass(frozen=True, slots=True)
class AgentContact:
    """Where and how an agent's present incarnation is called. The token is still encrypted."""

    id: str
    address: str
    incarnation: str
    call_token_encrypted: str


@dataclass(frozen=True, slots=True)
class AgentImageView:
    """One image on one agent under one reference. `size` is in bytes as its engine counts."""

    reference: str
    root_digest: str | None
    image_id: str
    size: int
