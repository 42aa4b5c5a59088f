"""Real container engines, each with its own socket, folders and daemon: a machine is a cluster.

with DockerEngine(folder) as engine:
    engine.api("GET", "/images/json")
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from rig import leftovers, processes


class ContainerEngine(ABC):
    """An engine that serves the Docker API on a Unix socket below `folder`.

    A subclass says how its daemon is started and what a start has to wait for.
    """

    READY_WITHIN = 40.0
    STOP_WITHIN = 15.0

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.socket = self.folder / "engine.sock"
        self.log_path = self.folder / "engine.log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The daemon's command line."""

    def environment(self) -> dict[str, str]:
        """Variables the daemon gets on top of ours."""
        return {}

    @abstractmethod
    def settle(self) -> None:
        """Return when nothing of a daemon that died is in the way of a new one."""

    @property
    def url(self) -> str:
        """What an agent is given: `unix:///…`."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        """The daemon's process."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the daemon's process lives (stopped by a signal counts as living)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        assert not self.running, "started already"
        self.settle()
        self._process = processes.start(
            self.command(),
            self.log_path,
            environment=self.environment(),
            folder=self.folder,  # conmon drops files where it stands
        )
        processes.wait_ready(self._process, self._answers, self.log_path, self.READY_WITHIN)

    def stop(self) -> None:
        """End the daemon as a service manager would."""
        if self._process is not None:
            processes.end(self._process, self.STOP_WITHIN)

    def kill(self) -> None:
        """End the daemon as the kernel's out-of-memory killer would."""
        if self.running:
            self._signal(signal.SIGKILL)
            assert self._process is not None
            self._process.wait()

    def pause(self) -> None:
        """Connections are accepted from now on, and never answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def api(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        timeout: float = 60.0,
    ) -> tuple[int, Any]:
        """One call: the status and the decoded JSON (the text where it is none)."""
        connection = _UnixConnection(self.socket, timeout)
        try:
            encoded = None if body is None else json.dumps(body).encode()
            connection.request(
                method, path, encoded, {"Content-Type": "application/json", **(headers or {})}
            )
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
        try:
            return response.status, json.loads(text) if text.strip() else None
        except ValueError:
            return response.status, text

    def pull(self, reference: str) -> None:
        """Pull by hand, as somebody beside us would."""
        status, answer = self.api(
            "POST", f"/images/create?fromImage={quote(reference, safe='')}", timeout=120
        )
        lines = str(answer)
        assert status == 200, lines  # noqa: PLR2004 - an HTTP status
        assert "errorDetail" not in lines, lines

    def create_container(
        self, image: str, name: str, *, command: Sequence[str] = (), start: bool = False
    ) -> str:
        """A container of `image`; the id. Started on request."""
        body = {"Image": image, "HostConfig": self.host_config(), "Cmd": list(command) or None}
        status, answer = self.api("POST", f"/containers/create?name={name}", body)
        assert status == 201, answer  # noqa: PLR2004 - an HTTP status
        if start:
            status, answered = self.api("POST", f"/containers/{answer['Id']}/start")
            assert status == 204, answered  # noqa: PLR2004 - an HTTP status
        return str(answer["Id"])

    def connections(self) -> int:
        """How many connections the daemon has accepted and not seen closed."""
        lines = Path("/proc/net/unix").read_text().splitlines()
        connected = "03"  # the column St, by which the daemon's own socket is told apart
        return sum(
            fields[-1] == str(self.socket) and fields[5] == connected
            for fields in map(str.split, lines)
        )

    def host_config(self) -> dict[str, Any]:
        """What a container needs to run here: there is no bridge."""
        return {"NetworkMode": "none"}

    def clear_containers(self) -> None:
        """Remove every container."""
        for container in self.api("GET", "/containers/json?all=1")[1] or []:
            self.api("DELETE", f"/containers/{container['Id']}?force=1&v=1")

    def clear(self) -> None:
        """Remove every container and every image."""
        self.clear_containers()
        for image in self.api("GET", "/images/json?all=1")[1] or []:
            self.api("DELETE", f"/images/{image['Id']}?force=1")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self.running:
                self.resume()
                self.clear_containers()
        finally:
            self.stop()
            self._remove()

    def _answers(self) -> bool:
        return self.api("GET", "/_ping", timeout=2)[0] == 200  # noqa: PLR2004 - an HTTP status

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "not started"
        self._process.send_signal(number)

    def _remove(self) -> None:
        """What outlived the daemon (shims, containerd) goes with the folder."""
        leftovers.sweep(self.folder)


class DockerEngine(ContainerEngine):
    """Docker Engine as the machine has it installed (Debian 12: 20.10 with the classic store).

    `download_attempts` shortens the daemon's own retry ladder (75 s by default; 1 means 5 s).
    `disk_size` gives it a file system of its own, in memory, of so many bytes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        download_attempts: int | None = None,
        disk_size: int | None = None,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder)
        self.root = self.folder / "root"
        self._disk_size = disk_size
        self._options = list(options)
        if download_attempts is not None:
            self._options.append(f"--max-download-attempts={download_attempts}")

    def command(self) -> Sequence[str]:
        return [
            "dockerd",
            f"--data-root={self.root}",
            f"--exec-root={self.folder / 'exec'}",
            f"--pidfile={self.folder / 'engine.pid'}",
            f"--host={self.url}",
            "--bridge=none",
            "--iptables=false",
            *self._options,
        ]

    def settle(self) -> None:
        """A killed dockerd takes its containerd along, which stays a zombie for about 1.3 s; a
        daemon started meanwhile waits for it and gives up after 15 s."""
        if self._disk_size is not None and not self.root.is_mount():
            self._mount(self._disk_size)
        (self.folder / "engine.pid").unlink(missing_ok=True)
        recorded = self.folder / "exec" / "containerd" / "containerd.pid"
        if not recorded.exists():
            return
        pid = int(recorded.read_text())
        if processes.wait_until(lambda: processes.name_of(pid) != "containerd", within=5):
            return
        if pid in processes.running_from(self.folder):  # else the pid is another engine's by now
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            processes.wait_until(lambda: processes.name_of(pid) != "containerd", within=5)

    def _mount(self, size: int) -> None:
        self.root.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.root)]
        subprocess.run(command, check=True)


class PodmanEngine(ContainerEngine):
    """Podman's service as the machine has it installed, pulling by http from `registries`
    (`host:port`; unlike Docker it makes no exception for loopback)."""

    def __init__(self, folder: Path, *, registries: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._run_path = Path(tempfile.mkdtemp(prefix="p-"))  # podman takes 50 characters at most
        self._registries_path = self.folder / "registries.conf"
        self._registries_path.write_text(
            "".join(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n' for host in registries)
        )
        # without the right to raise limits, a container has to be content with lower ones
        self._containers_path = self.folder / "containers.conf"
        self._containers_path.write_text(
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        )

    def command(self) -> Sequence[str]:
        return [
            "podman",
            f"--root={self.folder / 'root'}",
            f"--runroot={self._run_path}",
            f"--tmpdir={self.folder / 'tmp'}",
            "--cgroup-manager=cgroupfs",
            "--events-backend=file",
            "--runtime=runc",  # crun does not run where both versions of cgroups are mounted
            "system",
            "service",
            "--time=0",
            self.url,
        ]

    def environment(self) -> dict[str, str]:
        return {
            "CONTAINERS_REGISTRIES_CONF": str(self._registries_path),
            "CONTAINERS_CONF": str(self._containers_path),
        }

    def settle(self) -> None:
        """A killed service leaves its socket, which the next one replaces."""

    def _remove(self) -> None:
        super()._remove()
        leftovers.sweep(self._run_path)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("engine", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
