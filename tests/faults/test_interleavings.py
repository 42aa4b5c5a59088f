"""Everything people do, at random and at the same time, never hurts what they do.

A manager, four agents and their simulated engines run in one process; people make and end sessions,
preload, unload, rescan, push, and meddle by hand, while engines, agents and the manager go away and
come back. After every act, and whenever an engine is asked to take a name away, the database is
looked at from outside (`rig.promises`): promises 2, 4 and 5, slots and quotas, and that no
preparation stands without what runs. At last everybody stops, and all has to come to its end.

A failure names its seed. It is repeated, or any number of acts is done, with

    python -m rig.interleavings --acts 100000 --repositories 6 --seed 7

The seed decides what is done in which order and which transactions come late, not the moments of
the machine: a rare failure may take several runs to show again.

That a broken interlock is found is tried below, and can be tried by hand: in `bind` of
`manager/scheduler/binding.py`, let `_TakenOut.has` ask for avoided images alone; or in `decide` of
`manager/images/removing.py`, let `there` be empty.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from rig import processes
from rig.cargo import push_cargo
from rig.interleavings import exercise
from rig.promises import PromiseBroken
from rig.registry import Registry

ACTS = int(os.environ.get("WHARFINGER_INTERLEAVED_ACTS", "10000"))
SEED = int(os.environ.get("WHARFINGER_TEST_SEED") or random.randrange(2**32))
REPOSITORIES = (6, 1)
"""Of exercises side by side, each of its part of the acts: with fewer images more meets."""
SECONDS = 0.2
"""That one act of an exercise takes at most, on average."""
ENOUGH = 3000
"""Acts within which what is broken is found."""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def test_random_interleavings_keep_the_promises(tmp_path: Path) -> None:
    running: list[tuple[subprocess.Popen[bytes], Path]] = []
    try:
        for number, repositories in enumerate(REPOSITORIES):
            command = [sys.executable, "-m", "rig.interleavings", "--seed", str(SEED + number)]
            command += ["--acts", str(ACTS // len(REPOSITORIES))]
            command += ["--repositories", str(repositories)]
            log = tmp_path / f"log-{number}"
            running.append((processes.start(command, log), log))
        for process, log in running:
            code = process.wait(60 + SECONDS * ACTS)
            assert code == 0, log.read_text()[-20_000:]
    finally:
        for process, _ in running:
            processes.end(process, 10)


@pytest.mark.parametrize(
    ("broken", "shows"),
    [
        ("wharfinger.manager.scheduler.binding._TakenOut.has", "promise 5: .*kind='preload'"),
        ("wharfinger.manager.gate.kernels.bound", "promise 5: .*kind='unload'"),
    ],
    ids=["binding", "unload"],
)
def test_a_broken_interlock_is_found(
    tmp_path: Path, registry: Registry, broken: str, shows: str
) -> None:
    cargo = push_cargo(registry.host, 1)
    nothing = {"has": False, "bound": []}[broken.rpartition(".")[2]]
    with (
        patch(broken, lambda *_: nothing),
        pytest.raises(PromiseBroken, match=shows),
    ):
        exercise(tmp_path / "wharf", cargo, seed=SEED, acts=ENOUGH)
