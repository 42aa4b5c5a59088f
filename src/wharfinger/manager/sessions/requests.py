"""What is asked for when a session is created."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wharfinger.domain.slots import Slots


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """One container. An empty command means the image's own."""

    reference: str
    slots: Slots
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A session: its kernels (the main one first), a name (made up when empty), and the scaling
    group it has to run in (None: any its owner may use)."""

    kernels: Sequence[KernelRequest]
    name: str = ""
    scaling_group: str | None = None
