"""How far one pull is, from the engine's lines about layers."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from wharfinger.agent.engine.port import LayerEvent, LayerStep
from wharfinger.contracts.ingest import AttemptProgress
from wharfinger.domain.progress import ImageProgress, Layer, Phase, RateWindow

_IDLE: Final = {LayerStep.WAITING, LayerStep.DOWNLOADED, LayerStep.DONE}


class PullProgress:
    """The state of one pull: bytes, phase, and whether it lives."""

    def __init__(
        self, layers: Iterable[Layer], clock: Callable[[], float] = time.monotonic
    ) -> None:
        layers = tuple(layers)
        self._image = ImageProgress(layers)
        self._expected = {layer.digest.rpartition(":")[2][:12] for layer in layers}
        self._steps: dict[str, LayerStep] = {}
        self._current: dict[tuple[str, LayerStep], int] = {}
        self._most: dict[str, int] = {}
        self._window = RateWindow()
        self._clock = clock
        self._stage: Phase | None = Phase.WAITING

    def streaming(self) -> None:
        """The engine was asked; from now on its lines tell the phase."""
        self._stage = None

    def verifying(self) -> None:
        """The stream has ended; the image is inspected."""
        self._stage = Phase.VERIFYING

    def verified(self) -> None:
        """The image was seen on the host as it should be."""
        self._image.verified()

    def saw(self, event: LayerEvent) -> bool:
        """Take one line in; whether it is a sign of life.

        Engines repeat a stalled layer's number for ever, so it takes a number that grew (also one
        that began again lower: a layer is fetched anew) or a new step. The engine's own retries
        are life, and so is extraction where its bytes are not told: nobody else can hold that up.
        """
        stepped = self._steps.get(event.layer) is not event.step
        self._steps[event.layer] = event.step
        grew = self._grew(event)
        match event.step:
            case LayerStep.DOWNLOADING if event.current is not None:
                self._image.downloaded(event.layer, event.current)
            case LayerStep.DOWNLOADED:
                self._image.downloaded(event.layer)
            case LayerStep.EXTRACTING:
                self._image.downloaded(event.layer)
                if event.current is not None:
                    self._image.extracted(event.layer, event.current)
            case LayerStep.DONE:
                self._image.extracted(event.layer)
            case _:
                pass
        untold = event.step is LayerStep.EXTRACTING and event.current is None
        return stepped or grew or untold or event.step is LayerStep.RETRYING

    @property
    def queued(self) -> bool:
        """Whether all that is left waits behind other pulls of the same daemon.

        A layer the engine has not mentioned yet does not wait: its request may hang.
        """
        steps = set(self._steps.values())
        return (
            LayerStep.WAITING in steps and steps <= _IDLE and self._expected <= self._steps.keys()
        )

    @property
    def phase(self) -> Phase:
        """What the pull is busy with."""
        if self._stage is not None:
            return self._stage
        return self._busy_with()

    @property
    def to_download(self) -> int:
        """Bytes of the manifest's layers that are not here yet."""
        return self._image.to_download

    def report(self, attempt_id: str) -> AttemptProgress:
        """The present state in the words of the wire; each report is a sample of the rate."""
        done, total = self._image.done, self._image.total
        self._window.add(self._clock(), done)
        return AttemptProgress(
            attempt_id=attempt_id,
            phase=self.phase,
            bytes_done=done,
            bytes_total=total,
            bytes_per_second=self._window.rate,
            eta_seconds=self._window.eta(total - done),
        )

    def _busy_with(self) -> Phase:
        steps = set(self._steps.values())
        if LayerStep.RETRYING in steps or self._refetching:
            return Phase.RETRYING
        if self.queued:
            return Phase.WAITING
        if LayerStep.DOWNLOADING not in steps and steps & {
            LayerStep.EXTRACTING,
            LayerStep.DOWNLOADED,
        }:
            return Phase.EXTRACTING
        if steps == {LayerStep.DONE} and self._expected <= self._steps.keys():
            return Phase.VERIFYING
        return Phase.DOWNLOADING

    @property
    def _refetching(self) -> bool:
        return any(
            step is LayerStep.DOWNLOADING
            and self._current.get((layer, step), 0) < self._most.get(layer, 0)
            for layer, step in self._steps.items()
        )

    def _grew(self, event: LayerEvent) -> bool:
        if event.current is None:
            return False
        key = (event.layer, event.step)
        before = self._current.get(key, -1)
        self._current[key] = event.current
        if event.step is LayerStep.DOWNLOADING:
            self._most[event.layer] = max(self._most.get(event.layer, 0), event.current)
        return event.current > before
