"""Whether what is to be pulled fits on the engine's disk, beside what is being pulled there."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from wharfinger.agent.chains import LayerChains
from wharfinger.agent.engine.port import Engine, EngineError, LocalImage
from wharfinger.agent.progress import PullProgress
from wharfinger.contracts.rpc import PullOrder
from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.disk import kept, needed, shortfall
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.identity import holds
from wharfinger.domain.sizes import size

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Missing:
    """Compressed bytes by digest of what a pull has to download, lowest layer first."""

    layers: dict[str, int]
    layers_known: bool
    """False where nothing tells which of the image's layers are there, so that all are listed."""

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(self.layers.values())


@dataclass(eq=False, slots=True)
class _Claim:
    """A pull that is about to begin or under way."""

    order: PullOrder
    store: str
    progress: PullProgress
    missing: Missing = field(init=False)

    def __post_init__(self) -> None:
        self.missing = _all_of(self.order)

    def downloads(self, fetched: Collection[str]) -> Sequence[int]:
        """Bytes of its layers; others fetch some."""
        return [each for digest, each in self.missing.layers.items() if digest not in fetched]

    def needs(self, fetched: Collection[str]) -> int:
        """Bytes it takes at least at its peak, from its beginning on."""
        return needed(self.downloads(fetched), self.store)

    def still_needs(self, fetched: Collection[str]) -> int:
        """Bytes it is yet to keep at least: what is downloaded becomes no less when unpacked."""
        missing = self.missing.size
        left = min(self.progress.to_download, missing)
        return kept(self.downloads(fetched), self.store) * left // missing if missing else 0


class Room:
    """The disk of one engine and what the pulls in hand still need of it."""

    def __init__(self, engine: Engine, chains: LayerChains) -> None:
        self._engine = engine
        self._chains = chains
        self._claims: list[_Claim] = []

    async def missing(self, orders: Sequence[PullOrder]) -> list[Missing]:
        """What the engine lacks of each of these images. Raises `EngineError`."""
        listed = await self._chains.refresh()
        return [self._lacking(order, listed) for order in orders]

    @asynccontextmanager
    async def claim(
        self, order: PullOrder, store: str, progress: PullProgress
    ) -> AsyncIterator[None]:
        """Let the pull begin. Raises `EngineError` of class `no-space` when it surely cannot end
        with the order's margin left free.

        Which layers are there already is asked only where it matters: it may take seconds.
        """
        claim = _Claim(order, store, progress)
        if (disk := await self._engine.disk()) is not None and self._refusal(claim, disk):
            await self._look_closer(claim)
            if refusal := self._refusal(claim, disk):
                raise EngineError(refusal)
        self._claims.append(claim)
        try:
            yield
        finally:
            self._claims.remove(claim)

    async def _look_closer(self, claim: _Claim) -> None:
        """Take out of every claim what the engine has; where it does not tell, nothing is sure."""
        try:
            listed = await self._chains.refresh()
        except EngineError as error:
            log.info("not known which layers are there", problem=error.message)
            claim.missing = Missing({}, layers_known=False)
            return
        for each in (claim, *self._claims):
            each.missing = self._lacking(each.order, listed)

    def _lacking(self, order: PullOrder, listed: Sequence[LocalImage]) -> Missing:
        if any(holds(image.digests, order.root_digest) for image in listed):
            return Missing({}, layers_known=True)
        if len(order.diff_ids) != len(order.layers):
            return _all_of(order)
        held = self._chains.held(order.diff_ids)
        return Missing({each.digest: each.size for each in order.layers[held:]}, layers_known=True)

    def _refusal(self, claim: _Claim, disk: DiskSpace) -> Failure | None:
        """Why there is no room. A layer that several pulls fetch is needed once."""
        fetched: set[str] = set()
        others = 0
        for other in self._claims:
            others += other.still_needs(fetched)
            fetched |= other.missing.layers.keys()
        needs, margin = claim.needs(fetched), claim.order.disk_margin
        if not needs or not shortfall(disk.free, needs + others, margin):
            return None
        return Failure(
            FailureClass.NO_SPACE,
            f"needs at least {size(needs)} for {size(sum(claim.downloads(fetched)))} to download"
            + (f", other pulls here still need {size(others)}" if others else "")
            + f", {size(disk.free)} are free of {size(disk.total)} and {size(margin)} is to stay "
            "free: remove images or give the disk more room",
        )


def _all_of(order: PullOrder) -> Missing:
    return Missing({each.digest: each.size for each in order.layers}, layers_known=False)
