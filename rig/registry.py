"""A real docker-registry on loopback: open, with passwords, or with a token server."""

import ctypes
import http.client
import json
import re
import secrets
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rig import processes
from rig.ports import free_port
from rig.token_server import TokenServer

_ACCESS = re.compile(r'^\S+ - \S+ \[[^\]]+\] "(?P<method>[A-Z]+) (?P<path>\S+) HTTP/')
_UNCHANGED = re.compile(r'^\S+ - \S+ \[[^\]]+\] "[^"]*" 304 ', re.MULTILINE)
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0


class Registry:
    """docker-registry with its data in `folder`; entering starts it, leaving stops it.

    `users` (name: password) guards it by htpasswd, `token_server` by Bearer tokens.
    """

    def __init__(
        self,
        folder: Path,
        *,
        users: dict[str, str] | None = None,
        port: int | None = None,
        token_server: TokenServer | None = None,
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.log_path = folder / "registry.log"
        self._users = users
        self._token_server = token_server
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def data_path(self) -> Path:
        """Where blobs stand as plain files, to be damaged by tests."""
        return self.folder / "data" / "docker" / "registry" / "v2"

    def start(self) -> None:
        """Start it on its port with its data, and wait until it listens."""
        assert self._process is None, "it runs already"
        config = self.folder / "registry.json"
        config.write_text(json.dumps(self._config()))  # JSON is YAML
        self._process = processes.start(["docker-registry", "serve", str(config)], self.log_path)
        try:
            processes.wait_ready(self._process, self._listens, self.log_path, _START_SECONDS)
        except processes.NotReady:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it; its port and data stay. Stopping twice is fine."""
        process, self._process = self._process, None
        if process is not None:
            processes.end(process, _STOP_SECONDS)

    def requests(self) -> list[tuple[str, str]]:
        """(method, path with query) of every request answered so far, oldest first.

        A line is written when its answer is out: it may lag a few milliseconds behind it.
        """
        lines = self.log_path.read_text(errors="replace").splitlines()
        return [(m["method"], m["path"]) for line in lines if (m := _ACCESS.match(line))]

    def unchanged(self) -> int:
        """How many requests were answered with 304 so far."""
        return len(_UNCHANGED.findall(self.log_path.read_text(errors="replace")))

    def delete(self, repository: str, digest: str) -> None:
        """Delete a manifest with all its tags. For one that lets everybody in."""
        connection = http.client.HTTPConnection(self.host, timeout=10)
        connection.request("DELETE", f"/v2/{repository}/manifests/{digest}")
        assert connection.getresponse().status == http.HTTPStatus.ACCEPTED
        connection.close()

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "warn"},  # the access log is on by default
            "storage": {
                "filesystem": {"rootdirectory": str(self.folder / "data")},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.host, "secret": secrets.token_hex(16)},
        }
        if self._users is not None:
            htpasswd = self.folder / "htpasswd"
            htpasswd.write_text(
                "".join(f"{user}:{_bcrypt(word)}\n" for user, word in self._users.items())
            )
            config["auth"] = {"htpasswd": {"realm": "wharf", "path": str(htpasswd)}}
        if self._token_server is not None:
            bundle = self.folder / "token-certificate.pem"
            bundle.write_bytes(self._token_server.certificate)
            config["auth"] = {
                "token": {
                    "realm": self._token_server.realm,
                    "service": self._token_server.service,
                    "issuer": self._token_server.issuer,
                    "rootcertbundle": str(bundle),
                }
            }
        return config

    def _listens(self) -> bool:
        socket.create_connection(("127.0.0.1", self.port), 1).close()
        return True


def _bcrypt(password: str) -> str:
    """The only hash docker-registry's htpasswd takes, by the C library's crypt(3)."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    crypt.restype = ctypes.c_char_p
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    salt = "".join(secrets.choice(alphabet) for _ in range(21)) + "."
    hashed = crypt(password.encode(), f"$2b$04${salt}".encode())
    assert isinstance(hashed, bytes)
    assert hashed.startswith(b"$2b$"), "this C library has no bcrypt"
    return hashed.decode()
