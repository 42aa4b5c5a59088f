"""Stages: commands with a deadline, whose output is shown only when they fail."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lib.environment import CACHE, ROOT

_CLOSING = re.compile(r"^(?=.*\d+ \w+)[=\w ,]+ in [\d.:() hs]+=*$")
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
_UNWIND = 30.0
"""Seconds that a stage beyond its deadline gets to take down what it started."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A check. With `shares` it may run beside others; those with real parts run alone."""

    name: str
    command: Sequence[str]
    deadline: float
    """Seconds."""
    shares: bool = False
    counts: bool = False
    """Its tests are counted by pytest's closing line."""
    makes: str = ""
    """What it leaves for people to open."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a stage ended."""

    stage: Stage
    seconds: float
    code: int | None
    """The exit code; None beyond the deadline."""
    log: Path
    left_running: Sequence[str] = ()
    """Names of the processes it should have ended and did not; they are gone by now."""

    @property
    def ok(self) -> bool:
        """Whether it passed."""
        return self.code == 0

    @property
    def closing(self) -> str:
        """Pytest's last line, or nothing."""
        lines = self.log.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if _CLOSING.match(line)), "")

    def count(self, *kinds: str) -> int:
        """How many tests ended so."""
        return sum(int(n) for n, kind in _COUNT.findall(self.closing) if kind.rstrip("s") in kinds)

    @property
    def passed(self) -> int:
        """Tests that passed."""
        return self.count("passed") if self.stage.counts else 0

    @property
    def failed(self) -> int:
        """Tests that failed; at least one where the stage as a whole did."""
        if not self.stage.counts:
            return 0
        return max(self.count("failed", "error"), 0 if self.ok else 1)


_running: set[subprocess.Popen[bytes]] = set()

Sweep = Callable[[Path], list[str]]
"""Ends what a stage left running from its folder."""


def run_all(stages: Sequence[Stage], sweep: Sweep) -> list[Outcome]:
    """Every stage, also after one failed: first those that share, two at a time."""
    outcomes = []
    sharing = [stage for stage in stages if stage.shares]
    with ThreadPoolExecutor(2) as pool:
        try:
            for outcome in pool.map(lambda stage: run(stage, sweep), sharing):
                outcomes.append(outcome)
                report(outcome)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in _running:
                process.send_signal(signal.SIGINT)
            raise
    for stage in stages:
        if not stage.shares:
            outcomes.append(run(stage, sweep))
            report(outcomes[-1])
    return outcomes


def run(stage: Stage, sweep: Sweep) -> Outcome:
    """Run one stage in a session and with temporary files of its own."""
    log = CACHE / "test" / f"{stage.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="w-"))  # short: sockets are made below it
    folder.chmod(0o711)  # PostgreSQL runs as a user of its own
    begun = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            stage.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        _running.add(process)
        try:
            code = _wait(process, stage.deadline)
        finally:
            _end(process)
            _running.discard(process)
            left = sweep(folder)
    return Outcome(stage, time.monotonic() - begun, code, log, left)


def report(outcome: Outcome) -> None:
    """A line for a stage that passed; its whole output for one that did not."""
    name = f"{outcome.stage.name:<12}{outcome.seconds:7.1f} s  "
    if outcome.ok:
        print(name + (outcome.closing or outcome.stage.makes or "ok"))
    else:
        print(f"{name}FAILED\n{outcome.log.read_text(errors='replace').rstrip()}")
        if outcome.code is None:
            print(f"{outcome.stage.name}: not done after {outcome.stage.deadline:.0f} s, ended")
    if outcome.left_running:
        print(f"{outcome.stage.name}: left running, now ended: {', '.join(outcome.left_running)}")
    sys.stdout.flush()


def _wait(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return process.wait(deadline)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C would, so that fixtures are taken down; the whole session when that hangs."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_UNWIND)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
