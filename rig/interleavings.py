"""Random interleavings of all that people do, on a wharf whose promises are looked at all the time.

By hand, with any number and a seed that was printed:

    python -m rig.interleavings --acts 100000 --repositories 6 --seed 7
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import structlog

from rig.acts import FAULTS, WEIGHTS, Act
from rig.cargo import Cargo, push_cargo
from rig.promises import PromiseBroken
from rig.registry import Registry
from rig.wharf import AGENTS, Wharf
from wharfinger.domain.errors import WharfingerError
from wharfinger.manager.storage.errors import StorageClosed, StorageUnavailable

_AT_ONCE: Final = 8
"""Acts of people that are under way at the same time."""
_TOLD_EVERY: Final = 500
_SWITCH_SECONDS: Final = 0.0005
"""How long one thread keeps the interpreter from another: a transaction asks for it back after each
statement, and would wait ten times as long by default."""
_CUT_OFF: Final = (StorageUnavailable, StorageClosed)
"""What only a manager meets that was killed, since no other loses its database here."""
_SETTLED_SECONDS: Final = 90.0
"""How long it may take, once nobody acts any more, until nothing is left of it all."""


@dataclass
class Outcome:
    """What one exercise did: `done` and `refused` by act, `met` by `entity state`."""

    seed: int
    acts: int
    seconds: float = 0.0
    settled_after: float = 0.0
    checks: int = 0
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counts = [
            f"  {title}: {', '.join(f'{name} {count}' for name, count in sorted(counter.items()))}"
            for title, counter in (
                ("done", self.done),
                ("refused", self.refused),
                ("entered", self.met),
            )
        ]
        head = (
            f"seed {self.seed}: {self.acts} acts in {self.seconds:.1f} s, {self.checks} checks, "
            f"settled after {self.settled_after:.1f} s"
        )
        return "\n".join([head, *counts])


def exercise(
    folder: Path,
    cargo: Cargo,
    *,
    seed: int,
    acts: int,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Do so many acts, and let all of it come to its end; raises `PromiseBroken`, which begins with
    the seed. `tell` is told how far it is.

    The seed decides what is done in which order, and how late transactions come. When exactly
    things happen is the machine's.
    """
    outcome = Outcome(seed, acts)
    try:
        with _switching_often(), _defects_noted() as defects:
            asyncio.run(_exercise(folder, cargo, outcome, defects, tell))
    except* PromiseBroken as broken:
        raise PromiseBroken(f"seed {seed}: {_first(broken)}\n{outcome}") from broken
    return outcome


async def _exercise(
    folder: Path, cargo: Cargo, outcome: Outcome, defects: list[str], tell: Callable[[str], None]
) -> None:
    random = Random(outcome.seed)
    async with Wharf(folder, cargo, Random(random.random())) as wharf:
        drive = _Drive(wharf, random, outcome, defects, tell)
        began = time.monotonic()
        try:
            await drive.acts()
            outcome.seconds = time.monotonic() - began
            await drive.settle()
            outcome.settled_after = time.monotonic() - began - outcome.seconds
        finally:
            outcome.checks, outcome.met = wharf.promises.checks, wharf.promises.met


class _Drive:
    """One exercise of one wharf."""

    def __init__(
        self,
        wharf: Wharf,
        random: Random,
        outcome: Outcome,
        defects: list[str],
        tell: Callable[[str], None],
    ) -> None:
        self._wharf = wharf
        self._random = random
        self._outcome = outcome
        self._defects = defects
        self._tell = tell
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._fault = asyncio.Lock()

    async def acts(self) -> None:
        """Act after act, several at the same time, until all are done."""
        weights = WEIGHTS | FAULTS
        kinds = self._random.choices(list(weights), list(weights.values()), k=self._outcome.acts)
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, act in enumerate(kinds):
                await self._room.acquire()
                if number % _TOLD_EVERY == 0:
                    self._tell(f"{number} acts begun after {time.monotonic() - began:.0f} s")
                group.create_task(self._do(act, Random(self._random.random())))

    async def settle(self) -> None:
        """Nobody acts any more, and what runs ends by itself: within the time all is gone."""
        await self._wharf.agents_up()
        until = time.monotonic() + _SETTLED_SECONDS
        seen = self._check()
        while seen.sessions or seen.tasks or seen.preparations or await self._containers():
            if time.monotonic() > until:
                left = await self._containers()
                raise PromiseBroken(f"promise 2: left at the end: {seen}, containers {left}")
            for engine in self._wharf.engines.values():
                for container in await engine.containers():
                    engine.end_container(container.name, 0)
            await asyncio.sleep(0.1)
            seen = self._check()

    async def _do(self, act: Act, random: Random) -> None:
        """One act, and a look at the promises after it."""
        name = act.__name__
        if act in FAULTS:
            self._room.release()
        try:
            if act in FAULTS:
                async with self._fault:
                    await act(self._wharf, random)
            else:
                await act(self._wharf, random)
            self._outcome.done[name] += 1
        except WharfingerError as error:
            self._outcome.refused[f"{name} {_why(error)}"] += 1
        finally:
            if act not in FAULTS:
                self._room.release()
        self._check()

    def _check(self) -> Any:
        if self._defects:
            raise PromiseBroken("\n".join(self._defects))
        return self._wharf.promises.check()

    async def _containers(self) -> list[str]:
        return [
            f"{agent_id} {container.name}"
            for agent_id in AGENTS
            for container in await self._wharf.engines[agent_id].containers()
        ]


def _why(error: WharfingerError) -> str:
    return "away" if isinstance(error, _CUT_OFF) else error.code


def _first(group: BaseExceptionGroup[PromiseBroken]) -> BaseException:
    """One of the errors of a group of groups."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@contextmanager
def _switching_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


@contextmanager
def _defects_noted() -> Iterator[list[str]]:
    """What is logged with a traceback meanwhile; nothing else is logged."""
    defects: list[str] = []

    def note(logger: Any, method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if entry.get("exc_info") and not isinstance(sys.exception(), _CUT_OFF):
            entry = structlog.processors.format_exc_info(logger, method, entry)
            trace = entry.pop("exception")
            defects.append(f"a defect: {entry}\n{trace}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[note], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    try:
        yield defects
    finally:
        structlog.reset_defaults()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acts", type=int, default=10_000)
    parser.add_argument("--repositories", type=int, default=6, help="fewer meet more often")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = parser.parse_args()

    def tell(text: str) -> None:
        sys.stdout.write(f"seed {given.seed}: {text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder, Registry(Path(folder) / "registry") as registry:
        cargo = push_cargo(registry.host, given.repositories)
        wharf = Path(folder) / "wharf"
        outcome = exercise(wharf, cargo, seed=given.seed, acts=given.acts, tell=tell)
        sys.stdout.write(f"{outcome}\n")


if __name__ == "__main__":
    main()
