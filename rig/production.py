"""Managers and agents as programs of their own, over one PostgreSQL database."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography.fernet import Fernet

from rig import processes
from rig.engines import ContainerEngine
from rig.ports import free_port
from rig.server import PROGRAM, Outcome

_READY = 60.0
_STOPPED = 15.0


class Production:
    """Several managers on one database; agents that speak to the last manager started."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self._folder = folder
        self._shared = {
            "WHARFINGER_DATABASE_URL": database_url,
            "WHARFINGER_SECRETS_KEY": Fernet.generate_key().decode(),
            "WHARFINGER_DATA_DIR": str(folder / "data"),
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        self._running = ExitStack()
        self.managers: list[subprocess.Popen[bytes]] = []
        self.urls: list[str] = []

    def start_manager(self) -> None:
        """One more manager; it is `managers[-1]`, at `urls[-1]`."""
        port = free_port()
        self.managers.append(self._start(f"manager-{port}", ["manager", "--port", str(port)]))
        self.urls.append(f"http://127.0.0.1:{port}")

    def start_agent(self, agent_id: str, engine: ContainerEngine, join_token: str) -> None:
        """An agent beside this engine."""
        settings = {
            "WHARFINGER_AGENT_ID": agent_id,
            "WHARFINGER_AGENT_MANAGER_URL": self.urls[-1],
            "WHARFINGER_AGENT_ENGINE": engine.url,
            "WHARFINGER_AGENT_JOIN_TOKEN": join_token,
            "WHARFINGER_AGENT_STATE_DIR": str(self._folder / agent_id),
            "WHARFINGER_AGENT_NETWORK": "none",
        }
        self._start(agent_id, ["agent"], settings, ready=b"")

    def cli(self, manager: int, *arguments: str, timeout: float = 120.0) -> Outcome:
        """Run one command against one of the managers, as the superadmin."""
        token = (self._folder / "data" / "superadmin.token").read_text().strip()
        done = subprocess.run(
            [str(PROGRAM), "--url", self.urls[manager], *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, **self._shared, "WHARFINGER_TOKEN": token},
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    def _start(
        self,
        name: str,
        arguments: Sequence[str],
        settings: Mapping[str, str] | None = None,
        *,
        ready: bytes = b"Manager at",
    ) -> subprocess.Popen[bytes]:
        log = self._folder / f"{name}.log"
        process = processes.start(
            [str(PROGRAM), *arguments], log, environment={**self._shared, **(settings or {})}
        )
        self._running.callback(processes.stop, process, _STOPPED)
        processes.wait_ready(process, lambda: ready in log.read_bytes(), log, _READY)
        return process
