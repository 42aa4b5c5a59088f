"""A real Redis or Valkey server in a folder, gone when done."""

import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis.exceptions import ConnectionError  # noqa: A004 - the library's

from redis import Redis
from rig import processes

REDIS = "redis-server"
VALKEY = Path(__file__).resolve().parents[1] / ".cache" / "valkey" / "usr" / "bin" / "valkey-server"
"""Where `scripts/test` unpacks Debian's; it may be missing."""

_READY = 20.0
_STOPPED = 10.0


class RedisProcess:
    """`with RedisProcess(folder) as server:` → `server.url`.

    It listens on a Unix socket in its folder, takes little memory, and forgets everything when it
    ends. `folder` is created and removed.
    """

    def __init__(self, folder: Path, program: str | Path = REDIS) -> None:
        self.folder = folder
        self._program = str(program)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        """Start it (again), and wait until it answers."""
        log = self.folder / "log"
        self._socket.unlink(missing_ok=True)
        self._process = processes.start(
            [
                self._program, "--port", "0", "--unixsocket", str(self._socket),
                "--dir", str(self.folder), "--save", "", "--appendonly", "no",
                "--maxmemory", "64mb", "--maxmemory-policy", "volatile-ttl",
            ],
            log,
        )  # fmt: skip
        processes.wait_ready(self._process, self._answers, log, _READY)

    def kill(self) -> None:
        """End it without a word; connections break."""
        self._running.kill()
        self._running.wait()

    def freeze(self) -> None:
        """It runs no more, but connections stay."""
        self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        self._running.send_signal(signal.SIGCONT)

    def flush(self) -> None:
        """It forgets everything."""
        self.ask("FLUSHALL")

    def ask(self, *command: str) -> Any:
        """Its answer to a command."""
        with Redis(unix_socket_path=str(self._socket), decode_responses=True) as client:
            return client.execute_command(*command)

    @property
    def running(self) -> bool:
        return self._running.poll() is None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        processes.end(self._running, _STOPPED)
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except ConnectionError as error:
            raise OSError from error

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def _socket(self) -> Path:
        return self.folder / "socket"
