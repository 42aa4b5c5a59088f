"""Processes of the rig: start one, wait until it is ready, end it and what it left, by pid."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class NotReady(RuntimeError):
    """A part did not become ready; the message holds the end of its log."""


def start(
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, its output appended to `log`; in this folder, if
    one is named."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=folder,
            env={**os.environ, **(environment or {})},
        )


def wait_ready(
    process: subprocess.Popen[bytes], ready: Callable[[], bool], log: Path, within: float
) -> None:
    """Return when `ready` says so; an OSError from it means "not yet"."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NotReady(f"{process.args!r} exited {process.returncode}: {_end(log)}")
        try:
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.02)
    raise NotReady(f"{process.args!r} not ready after {within} s: {_end(log)}")


def wait_until(what: Callable[[], bool], within: float) -> bool:
    """Whether `what` became true in time."""
    deadline = time.monotonic() + within
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end(process: subprocess.Popen[bytes], within: float) -> None:
    """SIGTERM, and SIGKILL when that was not enough; returns when it is gone."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGCONT)
    process.terminate()
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def stop(process: subprocess.Popen[bytes], within: float) -> None:
    """SIGTERM; when it is not gone in time it is killed, and `TimeoutExpired` raised."""
    process.terminate()
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def name_of(pid: int) -> str | None:
    """The name of a process, also of a zombie; None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


def running_from(folder: Path) -> list[int]:
    """The pids of processes whose command line names something inside `folder`."""
    inside = f"{folder}/".encode()
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if inside in command:
                pids.append(int(entry.name))
    return pids


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-1500:] if log.exists() else ""
