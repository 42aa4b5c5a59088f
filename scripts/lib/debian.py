"""Debian packages: installed where they are missing, without a service being started."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_POLICY = Path("/usr/sbin/policy-rc.d")
_START_NOTHING = "#!/bin/sh\nexit 101\n"


@dataclass(frozen=True, slots=True)
class Package:
    """A package. With `program`, anything that brings that program will do in its stead."""

    name: str
    program: str = ""

    @property
    def missing(self) -> bool:
        """Whether it has to be installed."""
        if self.program and _found(self.program):
            return False
        asked = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${db:Status-Status}", self.name],
            check=False,
            capture_output=True,
            text=True,
        )
        return asked.stdout != "installed"


QUICKSTART = (
    Package("docker.io", "dockerd"),
    Package("docker-registry", "docker-registry"),
    Package("busybox-static"),  # what sample images run; the other busybox needs libraries
)
TESTS = (
    *QUICKSTART,
    Package("podman", "podman"),
    Package("postgresql-15", "/usr/lib/postgresql/15/bin/postgres"),
    Package("redis-server", "redis-server"),
)
VENV = Package("python3.11-venv")


class CannotInstall(RuntimeError):
    """The message says what to do by hand."""


def install_missing(packages: Sequence[Package], say: Callable[[str], None]) -> list[str]:
    """Install those that are missing and return their names; nothing is said or run when none is.

    Raises `CannotInstall`.
    """
    names = [package.name for package in packages if package.missing]
    if importlib.util.find_spec("ensurepip") is None:
        names.append(VENV.name)
    if names:
        _install(names, say)
    return names


def _install(names: Sequence[str], say: Callable[[str], None]) -> None:
    command = f"apt-get install --no-install-recommends {' '.join(names)}"
    if shutil.which("apt-get") is None:
        raise CannotInstall(f"this needs Debian's {', '.join(names)}, and here is no apt-get")
    if os.geteuid() != 0:
        raise CannotInstall(f"these packages are missing; as root: {command}")
    say(f"installing missing Debian packages ({', '.join(names)}); this may take minutes ...")
    with _no_service_starts():
        if _apt("install", *names).returncode != 0:
            _apt("update")
            done = _apt("install", *names)
            if done.returncode != 0:
                raise CannotInstall(f"{command} failed:\n{done.stdout}")


def _apt(act: str, *names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", "--quiet", "--yes", "--option=DPkg::Lock::Timeout=300",
         "--no-install-recommends", act, *names],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )  # fmt: skip


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Debian starts what it installs unless `policy-rc.d` forbids; one that is there is kept."""
    ours = not _POLICY.exists()
    if ours:
        _POLICY.write_text(_START_NOTHING)
        _POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            _POLICY.unlink()


def _found(program: str) -> bool:
    # system programs, also for a user whose PATH has no sbin
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which(program, path=path) is not None
