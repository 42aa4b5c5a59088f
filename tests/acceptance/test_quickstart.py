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

    def __init__(self) -> None:
        self.home = home = Path(tempfile.mkdtemp(prefix="q-"))
        self.folder = home / ".cache" / "wharfinger" / "quickstart"
        self.connection = home / ".config" / "wharfinger" / "client.json"
        self._log = home / "output"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> str:
        return self._log.read_text()

    def start(self, until: str = READY) -> None:
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
        processes.wait_ready(self._process, lambda: until in self.output, self._log, within=120)

    def command_under_way(self, name: str) -> int:
        """The process of the command that it types just now."""
        assert self._process is not None
        pid = self._process.pid
        below = Path(f"/proc/{pid}/task/{pid}/children")
        found: list[int] = []

        def runs() -> bool:
            found[:] = [
                int(child)
                for child in below.read_text().split()
                if name.encode() in Path(f"/proc/{child}/cmdline").read_bytes()
            ]
            return bool(found)

        assert processes.wait_until(runs, within=10), self.output
        return found[0]

    def end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(60)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Commands for it, in another terminal, as if its usual ports had been free."""
        url, registry = (
            found[1]
            for pattern in (r"is up at (\S+)", r"registry (\S+) is known")
            if (found := re.search(pattern, self.output))
        )
        command = command.replace("http://127.0.0.1:8080", url).replace("127.0.0.1:5000", registry)
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
        )

    def printed_commands(self) -> list[str]:
        """What it says to try next: the way to the program, then commands."""
        shown = self.output.partition("Try next")[2]
        return re.findall(r"^  (\S.*)$", shown, re.MULTILINE)

    def clear(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)
        leftovers.sweep(self.folder)
        shutil.rmtree(self.home)


def tutorial(name: str) -> str:
    """The commands of a tutorial, as one script."""
    text = (ROOT / "docs" / "tutorial" / f"{name}.md").read_text()
    return "\n".join(re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def running() -> Iterator[Quickstart]:
    """One that stays up; the tests of this module share it, each leaving the images as it likes."""
    quickstart = Quickstart()
    try:
        quickstart.start()
        yield quickstart
    finally:
        quickstart.clear()


@pytest.fixture
def killed() -> Iterator[Quickstart]:
    """One that was configured for another server, and killed while it showed a preload."""
    quickstart = Quickstart()
    try:
        quickstart.connection.parent.mkdir(parents=True)
        quickstart.connection.write_text("as it was")
        quickstart.start(until="wharfinger image preload")
        preload = quickstart.command_under_way("preload")
        quickstart.end(signal.SIGKILL)
        assert processes.wait_until(lambda: processes.name_of(preload) is None, within=10)
        yield quickstart
    finally:
        quickstart.clear()


def test_a_person_is_led_through_and_printed_commands_and_tutorial_work_in_this_order(
    running: Quickstart,
) -> None:
    assert re.search(r"wharf/notebook:v1\s.*blue-1\s*$", running.output, re.MULTILINE)
    assert re.search(r"wharf/trainer:v1\s.*blue-1, green-1\s*$", running.output, re.MULTILINE)
    path, *commands = running.printed_commands()
    assert len(commands) == 6
    for command in commands:
        done = running.run(f"{path}\n{command}")
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    done = running.run(tutorial("quickstart"))
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "skipped" in done.stdout
    assert "in-use" in done.stdout
    assert "exit code 3" in done.stdout


def test_the_printed_commands_work_one_after_the_other(running: Quickstart) -> None:
    done = running.run("\n".join(running.printed_commands()))
    assert done.returncode == 0, (done.stdout, done.stderr)


def test_the_tutorial_with_curl_works_as_written(running: Quickstart) -> None:
    done = running.run(tutorial("curl"))
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.count("event: bgtask_done") == 2
    assert '"class":"unknown-selector"' in done.stdout


def test_another_one_is_refused_while_it_runs(running: Quickstart) -> None:
    done = running.run(f"{sys.executable} -m rig.quickstart")
    assert done.returncode == 1
    assert "another quickstart is running" in done.stderr


def test_after_a_kill_it_works_again_and_ends_clean(killed: Quickstart) -> None:
    assert processes.running_from(killed.folder)
    killed.start()
    assert killed.connection.read_text() != "as it was"
    assert killed.output.startswith("Cleaned up after a former run")

    assert killed.end(signal.SIGINT) == 0

    assert "Stopping" in killed.output
    assert "all of it removed" in killed.output
    assert killed.connection.read_text() == "as it was"
    assert not killed.folder.exists()
    assert processes.running_from(killed.folder) == []
