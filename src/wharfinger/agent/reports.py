"""What one report says, and what its acknowledgement settles."""

from wharfinger.agent.inventory import InventoryWatch
from wharfinger.agent.outbox import Outbox
from wharfinger.agent.puller import Puller
from wharfinger.contracts.ingest import Acknowledgement, Report


class Reporter:
    """Takes the agent's state together for one report after another."""

    def __init__(
        self, incarnation: str, outbox: Outbox, puller: Puller, inventory: InventoryWatch
    ) -> None:
        self._incarnation = incarnation
        self._outbox = outbox
        self._puller = puller
        self._inventory = inventory
        self._begun = 0
        self._kept_version = ""

    def begin(self) -> Report:
        """The state of this moment: what is in hand, and every event not acknowledged."""
        self._begun += 1
        current = self._inventory.current
        version = current.version if current else ""
        return Report(
            incarnation=self._incarnation,
            begun=self._begun,
            engine=self._inventory.facts,
            in_hand=self._puller.in_hand(),
            progress=self._puller.progress(),
            events=self._outbox.pending,
            inventory_version=version,
            inventory=current if version != self._kept_version else None,
        )

    def acknowledged(self, acknowledgement: Acknowledgement) -> None:
        """The manager keeps this much; the rest is said again."""
        self._outbox.acknowledge(acknowledgement.sequence)
        self._kept_version = acknowledgement.inventory_version
