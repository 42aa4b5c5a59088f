"""What one report says, and what its acknowledgement settles."""

from collections.abc import Callable

from wharfinger.agent.containers import ContainerListing
from wharfinger.agent.disk_watch import DiskWatch
from wharfinger.agent.engine_watch import EngineWatch
from wharfinger.agent.inventory import ImageListing
from wharfinger.agent.kernels import Kernels
from wharfinger.agent.outbox import Outbox
from wharfinger.agent.puller import Puller
from wharfinger.contracts.ingest import Acknowledgement, Capacity, Report


class Reporter:
    """Takes the agent's state together for one report after another."""

    def __init__(
        self,
        incarnation: str,
        *,
        outbox: Outbox,
        puller: Puller,
        engine: EngineWatch,
        images: ImageListing,
        containers: ContainerListing,
        kernels: Kernels,
        disk: DiskWatch,
        capacity: Callable[[], Capacity | None],
    ) -> None:
        self._incarnation = incarnation
        self._outbox = outbox
        self._puller = puller
        self._engine = engine
        self._images = images
        self._containers = containers
        self._kernels = kernels
        self._disk = disk
        self._capacity = capacity
        self._begun = 0
        self._kept_version = self._said_version = ""

    def begin(self) -> Report:
        """The state of this moment: what is in hand, and every event not acknowledged."""
        self._begun += 1
        listed, fresh = self._images.current, self._images.fresh
        self._said_version = listed.version if listed else ""
        return Report(
            incarnation=self._incarnation,
            begun=self._begun,
            engine=self._engine.facts,
            in_hand=self._puller.in_hand(),
            progress=self._puller.progress(),
            events=self._outbox.pending,
            inventory_version=self._said_version,
            inventory=fresh if fresh and fresh.version != self._kept_version else None,
            capacity=self._capacity(),
            containers=self._containers.current,
            kernels_in_hand=self._kernels.in_hand(),
            disk=self._disk.current,
        )

    def acknowledged(self, acknowledgement: Acknowledgement) -> None:
        """The manager keeps this much; the rest is said again."""
        self._outbox.acknowledge(acknowledgement.sequence)
        self._kept_version = acknowledgement.inventory_version
        if self._kept_version not in ("", self._said_version):
            self._images.ask(self._kept_version)
