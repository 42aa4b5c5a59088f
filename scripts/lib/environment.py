"""The Python environment in `.venv`, made from the hashed requirement files."""

import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
CACHE = ROOT / ".cache"

Extent = Literal["run", "dev"]
"""`run`: what the programs need. `dev`: that, and what tests and documentation need."""

_INCLUDES: dict[Extent, tuple[Extent, ...]] = {"run": ("run", "dev"), "dev": ("dev",)}

_WHAT_FOR: dict[Extent, str] = {
    "run": "for the programs",
    "dev": "for the programs, tests and documentation",
}


class CannotInstall(RuntimeError):
    """The message holds what pip said."""


def make(extent: Extent, say: Callable[[str], None]) -> bool:
    """Make the environment, or bring it up to date; whether there was anything to do.

    What is there in the right version stays: `dev` on top of `run` adds only the difference.
    """
    if any(_is_made(wider) for wider in _INCLUDES[extent]):
        return False
    say(f"installing missing Python packages {_WHAT_FOR[extent]}; this may take minutes ...")
    if not _works():
        base = Path(sys.base_prefix) / "bin" / "python3.11"
        _run(str(base), "-m", "venv", "--clear", str(VENV))
    _pip("install", "--require-hashes", f"--requirement={_requirements(extent)}")
    _pip("install", "--no-deps", "--no-build-isolation", f"--editable={ROOT}")
    _stamp(extent).write_text(_made_from(extent))
    return True


def _is_made(extent: Extent) -> bool:
    stamp = _stamp(extent)
    return stamp.exists() and stamp.read_text() == _made_from(extent) and _works()


def _stamp(extent: Extent) -> Path:
    return VENV / f"made-from-{extent}"


def _made_from(extent: Extent) -> str:
    """Changes whenever an environment has to be made anew."""
    digest = hashlib.sha256(f"{VENV}\n{sys.version}\n".encode())
    for source in (ROOT / "pyproject.toml", _requirements(extent)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _requirements(extent: Extent) -> Path:
    return ROOT / "requirements" / f"{extent}.txt"


def _works() -> bool:
    try:
        return subprocess.run([PYTHON, "-c", ""], check=False).returncode == 0
    except OSError:
        return False


def _pip(*arguments: str) -> None:
    _run(str(PYTHON), "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check",
         *arguments)  # fmt: skip


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise CannotInstall(f"{' '.join(command)} failed:\n{done.stdout}")


@contextmanager
def one_at_a_time(say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of everything that sets up in this checkout."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "setup.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is under way in this checkout; waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
