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

    def __init__(
        self, folder: Path, database_url: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._shared = {
            "WHARFINGER_DATABASE_URL": database_url,
            "WHARFINGER_SECRETS_KEY": Fernet.generate_key().decode(),
            "WHARFINGER_DATA_DIR": str(folder / "data"),
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "",
            **(settings or {}),
        }
        self._running = ExitStack()
        self.managers: list[subprocess.Popen[bytes]] = []
        self.urls: list[str] = []
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self._agent_settings: dict[str, Mapping[str, str]] = {}

    def start_manager(self) -> None:
        """One more manager; it is `managers[-1]`, at `urls[-1]`."""
        port = free_port()
        self.managers.append(self._start(f"manager-{port}", ["manager", "--port", str(port)]))
        self.urls.append(f"http://127.0.0.1:{port}")

    @property
    def url(self) -> str:
        """Where the last manager serves."""
        return self.urls[-1]

    @property
    def token(self) -> str:
        """The superadmin's token."""
        return (self._folder / "data" / "superadmin.token").read_text().strip()

    def start_agent(
        self,
        agent_id: str,
        engine: ContainerEngine,
        join_token: str,
        *,
        manager_url: str | None = None,
    ) -> None:
        """An agent beside this engine, which speaks to the last manager or whoever is named."""
        self._agent_settings[agent_id] = {
            "WHARFINGER_AGENT_ID": agent_id,
            "WHARFINGER_AGENT_MANAGER_URL": manager_url or self.url,
            "WHARFINGER_AGENT_ENGINE": engine.url,
            "WHARFINGER_AGENT_JOIN_TOKEN": join_token,
            "WHARFINGER_AGENT_STATE_DIR": str(self._folder / agent_id),
            "WHARFINGER_AGENT_NETWORK": "none",
        }
        self.restart_agent(agent_id)

    def kill_agent(self, agent_id: str) -> None:
        """End its process without a word; what it had in hand stays as it is."""
        self.agents[agent_id].kill()
        self.agents[agent_id].wait()

    def restart_agent(self, agent_id: str) -> None:
        """A new process of an agent that was started before."""
        settings = self._agent_settings[agent_id]
        self.agents[agent_id] = self._start(agent_id, ["agent"], settings, ready=b"")

    def at(self, manager: int) -> "OneManager":
        """One of the managers, as `rig.sessions` speaks to it."""
        return OneManager(self, manager)

    def cli(
        self, manager: int, *arguments: str, timeout: float = 120.0, token: str | None = None
    ) -> Outcome:
        """Run one command against one of the managers, as the superadmin or with this token."""
        done = subprocess.run(
            [str(PROGRAM), "--url", self.urls[manager], *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, **self._shared, "WHARFINGER_TOKEN": token or self.token},
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


class OneManager:
    """One of several managers, with a command line."""

    def __init__(self, production: Production, manager: int) -> None:
        self._production = production
        self._manager = manager

    @property
    def url(self) -> str:
        """Where it serves."""
        return self._production.urls[self._manager]

    @property
    def token(self) -> str:
        """The superadmin's token."""
        return self._production.token

    def cli(self, *arguments: str, timeout: float = 120.0, token: str | None = None) -> Outcome:
        """Run one command to its end."""
        return self._production.cli(self._manager, *arguments, timeout=timeout, token=token)
