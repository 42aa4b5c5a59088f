"""A real PostgreSQL server in a folder, gone when done."""

import os
import shutil
import subprocess
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from rig.ports import free_port

_BINARIES = Path("/usr/lib/postgresql/15/bin")


class Postgres:
    """`with Postgres(folder) as server:` → `server.url`, `server.fresh_database()`.

    It listens on a free loopback port, trusts everybody who reaches it, and forgets on a crash
    (fsync is off). `folder` is created and removed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._numbers = count(1)

    @property
    def url(self) -> str:
        """The server's own database."""
        return self.database_url("postgres")

    def database_url(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{name}"

    def fresh_database(self, template: str = "template1") -> str:
        """Create a database nobody used before, a copy of `template`, and tell its URL."""
        name = f"fresh_{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return self.database_url(name)

    def drop_database(self, url: str) -> None:
        """Drop it, even under somebody's feet."""
        self.sql(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def sql(self, statement: str) -> str:
        """Run one statement in the server's own database: its rows, a line each."""
        return self._run(
            "psql", "--host=127.0.0.1", f"--port={self.port}", "--username=postgres",
            "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", f"--command={statement}",
            "postgres",
        )  # fmt: skip

    @property
    def running(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def start(self) -> None:
        """Start it (again), and wait until it answers."""
        self._control("start", f"--log={self.folder / 'log'}")

    def stop(self) -> None:
        """Stop it at once; connections break."""
        self._control("stop", "--mode=fast")

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self._run(
            "initdb", f"--pgdata={self._data}", "--username=postgres", "--auth=trust",
            "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions",
        )  # fmt: skip
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\n"
                "unix_socket_directories = ''\nfsync = off\nsynchronous_commit = off\n"
                "full_page_writes = off\nshared_buffers = 32MB\nmax_connections = 50\n"
                "deadlock_timeout = '100ms'\n"
            )
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.running:
            self._control("stop", "--mode=immediate")
        shutil.rmtree(self.folder)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _control(self, act: str, *options: str) -> None:
        self._run("pg_ctl", act, f"--pgdata={self._data}", "--wait", "--silent", *options)

    def _run(self, program: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs, as its own user: the server refuses to run as root."""
        user = "postgres" if os.geteuid() == 0 else None
        done = subprocess.run(
            [_BINARIES / program, *arguments],
            user=user,
            group=user,
            extra_groups=[] if user else None,
            cwd="/",
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stdout}")
        return done.stdout
