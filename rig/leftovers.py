"""What dead programs leave below a folder: processes, mounts, files."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from rig import processes

_PROGRAMS: Final = {
    "conmon",
    "containerd",
    "containerd-shim",
    "docker-registry",
    "dockerd",
    "podman",
    "postgres",
    "redis-server",
    "valkey-server",
    "wharfinger",
}
"""As the kernel names them: fifteen characters."""


def sweep(folder: Path) -> list[str]:
    """End what the rig started on `folder`, unmount, delete; the names of those ended.

    The rig's programs name something inside it on their command line; others that do (an editor, a
    client) are left alone. A container's processes do not, but their shim does, so children go
    with their parents.
    """
    ended = []
    while pids := _ours(folder):
        for pid in _with_children(pids):
            ended.append(processes.name_of(pid) or str(pid))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not processes.wait_until(lambda: not _ours(folder), within=5):
            break
    for mount in _mounts_below(folder):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
    return ended


def _ours(folder: Path) -> list[int]:
    return [pid for pid in processes.running_from(folder) if processes.name_of(pid) in _PROGRAMS]


def _with_children(pids: Iterable[int]) -> set[int]:
    parents = {
        int(entry.name): parent
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and (parent := _parent(entry)) is not None
    }
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _parent(process: Path) -> int | None:
    try:
        # "pid (name) state ppid …": the name may hold anything, parentheses too
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _mounts_below(folder: Path) -> list[str]:
    """Mount points inside `folder`, innermost first."""
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)
