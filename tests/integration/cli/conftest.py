"""The program as people run it, and a manager that answers what a test says."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rig.odd_manager import OddManager

SECONDS = 60


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Program:
    """Runs `wharfinger` as a process of its own, without a terminal."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {
            "PATH": os.environ["PATH"],
            "XDG_CONFIG_HOME": str(home),
            "HOME": str(home),
            "PYTHONWARNINGS": "error",
        }

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        streams = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        return subprocess.Popen(
            self.command(*arguments), env=self.environ, text=True, **{**streams, **more}
        )

    def run(self, *arguments: str, stdin: str = "") -> Ended:
        ended = subprocess.run(
            self.command(*arguments),
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def shell(self, line: str, *arguments: str) -> Ended:
        """Run `line`, in which `"$@"` is the program with its arguments."""
        ended = subprocess.run(
            ["bash", "-c", line, "bash", *self.command(*arguments)],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def interrupt(self, process: subprocess.Popen[str]) -> Ended:
        """Ctrl-C, and what came of it."""
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
        return Ended(process.returncode, out, err)

    @staticmethod
    def command(*arguments: str) -> list[str]:
        program = "from wharfinger.cli.main import main; main()"
        return [sys.executable, "-c", program, *arguments]


@pytest.fixture
def manager() -> Iterator[OddManager]:
    with OddManager() as odd:
        yield odd


@pytest.fixture
def program(tmp_path: Path, manager: OddManager) -> Program:
    made = Program(tmp_path)
    made.environ |= {"WHARFINGER_URL": manager.url, "WHARFINGER_TOKEN": "secret"}
    return made


@pytest.fixture
def stranger(tmp_path: Path) -> Program:
    """The program where nothing is known of any manager."""
    return Program(tmp_path)
