"""`wharfinger up` as a process of its own, with the command line to match."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rig import processes
from rig.engines import ContainerEngine

PROGRAM = Path(sys.executable).with_name("wharfinger")
_READY = 60.0
_STOPPED = 15.0


@dataclass(frozen=True)
class Outcome:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on its standard output."""
        return json.loads(self.out)


class Server:
    """A manager with its agents, on real engines: `engines` are (scaling group, engine).

    Everything is kept below `folder`: data, configuration, log.
    """

    def __init__(
        self,
        folder: Path,
        engines: Sequence[tuple[str, ContainerEngine]],
        environment: Mapping[str, str] | None = None,
        *,
        port: int = 0,
    ) -> None:
        self._folder = folder
        self._engines = engines
        self.environment = {
            **os.environ,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "",  # the second start is the faster one
            **(environment or {}),
        }
        self.log_path = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = port

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """Where it serves."""
        return str(self._connection()["url"])

    @property
    def token(self) -> str:
        """The superadmin's token."""
        return str(self._connection()["token"])

    @property
    def token_path(self) -> Path:
        """The file of the superadmin's token."""
        return self._folder / "data" / "superadmin.token"

    def start(self) -> None:
        """Start it, on its port of last time, and wait until it says that it is up."""
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [str(PROGRAM), "up", "--port", str(self._port)]
        command += ["--data-dir", str(self._folder / "data")]
        for group, engine in self._engines:
            command += ["--engine", f"{group}={engine.url}"]
        self.log_path.touch()
        said_before = self.log_path.stat().st_size
        self._process = processes.start(command, self.log_path, environment=self.environment)
        try:
            processes.wait_ready(
                self._process,
                lambda: b"is up at" in self.log_path.read_bytes()[said_before:],
                self.log_path,
                _READY,
            )
        except processes.NotReady:
            self.kill()
            raise
        self._port = int(self.url.rpartition(":")[2])

    def agents_up(self) -> None:
        """Wait until every agent is UP."""

        def up() -> bool:
            agents = self.cli("agent", "ls", "--json").json
            return [agent["status"] for agent in agents] == ["UP"] * len(self._engines)

        assert processes.wait_until(up, _READY), self.log_path.read_text()[-4000:]

    def wait(self) -> int:
        """Return its exit code when it ends by itself."""
        assert self._process is not None
        return self._process.wait()

    def stop(self) -> float:
        """Tell it to stop; how long that took, in seconds."""
        assert self._process is not None
        began = time.monotonic()
        processes.stop(self._process, _STOPPED)
        return time.monotonic() - began

    def kill(self) -> None:
        """End it without a word."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(_STOPPED)

    def cli(self, *arguments: str, timeout: float = 120.0, token: str | None = None) -> Outcome:
        """Run one command to its end."""
        done = subprocess.run(
            [str(PROGRAM), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=self._environment(token),
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that is still running; killed at the end if it is by then."""
        process = subprocess.Popen(
            [str(PROGRAM), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(None),
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def wait_task(self, task_id: str, timeout: float = 120.0) -> Outcome:
        """`task watch`, to the task's end."""
        return self.cli("task", "watch", task_id, "--json", timeout=timeout)

    def __enter__(self) -> Self:
        if self._process is None:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()

    def _connection(self) -> dict[str, Any]:
        path = Path(self.environment["XDG_CONFIG_HOME"]) / "wharfinger" / "client.json"
        return dict(json.loads(path.read_text()))

    def _environment(self, token: str | None) -> dict[str, str]:
        if token is None:
            return self.environment
        return {**self.environment, "WHARFINGER_TOKEN": token}
