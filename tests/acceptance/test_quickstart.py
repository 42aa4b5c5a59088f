"""`scripts/quickstart`, as a person runs it; in homes of its own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import leftovers, processes

ROOT = Path(__file__).resolve().parents[2]
READY = "Ctrl-C here stops all of it"


class Quickstart:
    """The script, started in a home and led to the point where it stays up."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / ".cache" / "wharfinger" / "quickstart"
        self.connection = home / ".config" / "wharfinger" / "client.json"
        self._log = home / "output"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        self._log.unlink(missing_ok=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rig.quickstart"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**environment, "HOME": str(self.home)},
            )
        processes.wait_ready(self._process, lambda: READY in self.output, self._log, within=120)

    def end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(60)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command it printed, in another terminal."""
        return subprocess.run(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
        )

    def clear(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)
        leftovers.sweep(self.folder)
        shutil.rmtree(self.home)


@pytest.fixture
def quickstart() -> Iterator[Quickstart]:
    quickstart = Quickstart(Path(tempfile.mkdtemp(prefix="q-")))
    yield quickstart
    quickstart.clear()


def test_a_person_is_led_through_and_the_printed_commands_work(quickstart: Quickstart) -> None:
    quickstart.start()

    assert "preload" in quickstart.output
    assert re.search(r"wharf/notebook:v1\s.*blue-1\s*$", quickstart.output, re.MULTILINE)
    assert re.search(r"wharf/trainer:v1\s.*blue-1, green-1\s*$", quickstart.output, re.MULTILINE)
    commands = re.findall(r"^  (\S*(?:wharfinger|docker) .+)$", quickstart.output, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        done = quickstart.run(command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    assert quickstart.end(signal.SIGINT) == 0
    assert not quickstart.folder.exists()
    assert not quickstart.connection.exists()
    assert processes.running_from(quickstart.folder) == []


def test_it_works_again_after_it_was_killed_and_gives_back_what_was_configured(
    quickstart: Quickstart,
) -> None:
    quickstart.connection.parent.mkdir(parents=True)
    quickstart.connection.write_text("as it was")
    quickstart.start()
    quickstart.end(signal.SIGKILL)
    assert processes.running_from(quickstart.folder)

    quickstart.start()
    assert quickstart.connection.read_text() != "as it was"
    assert quickstart.end(signal.SIGTERM) == 0

    assert quickstart.connection.read_text() == "as it was"
    assert not quickstart.folder.exists()
    assert processes.running_from(quickstart.folder) == []
