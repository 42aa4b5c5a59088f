"""A small real cluster, and Wharfinger shown at work on it: what `scripts/quickstart` runs."""

import ctypes
import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rig import images, leftovers
from rig.engines import DockerEngine
from rig.ports import free_port
from rig.registry import Registry
from rig.server import PROGRAM, Server
from wharfinger.client.connection import connection_file

GROUPS = ("blue", "green")
SMALL = ("--cpu", "0.5", "--mem", "64m")
AT_WORK = ("/bin/busybox", "sh", "-c", "while :; do date; sleep 5; done")
"""What the session of the tour does."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MEGABYTE = 1_000_000
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Disappointed(Exception):
    """Something did not go as it should; the message says what."""


@dataclass(frozen=True)
class Samples:
    """References of the images made for the occasion."""

    trainer: str
    trainer_next: str
    notebook: str


def main() -> None:
    """Show it, stay up until Ctrl-C or SIGTERM, and take everything down again."""
    for number in _ENDING:
        signal.signal(number, stop)
    folder = cache_home() / "wharfinger" / "quickstart"
    try:
        with folder_alone(folder), own_connection(folder):
            show(folder)
    except KeyboardInterrupt:
        say("Stopped, and all of it removed.")
    except Disappointed as error:
        sys.exit(f"error: {error}")


def stop(_number: int, _frame: object) -> None:
    """Say so, and unwind; a second signal does not break into that."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):  # print may be in the middle of a line; the terminal may be gone
        os.write(sys.stdout.fileno(), b"\nStopping; this takes some seconds ...\n")
    raise KeyboardInterrupt


def cache_home() -> Path:
    """The user's cache directory (XDG base directories)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base) if base.startswith("/") else Path.home() / ".cache"


@contextmanager
def folder_alone(folder: Path) -> Iterator[None]:
    """An empty folder for this process alone, gone afterwards with all that runs from it.

    What a run that was killed has left there is ended first.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Disappointed("another quickstart is running; stop it first") from error
        was_there = folder.exists()
        if leftovers.sweep(folder) or was_there:
            say("Cleaned up after a former run, which was killed.")
        folder.mkdir(mode=0o700)
        try:
            yield
        finally:
            leftovers.sweep(folder)


@contextmanager
def own_connection(folder: Path) -> Iterator[None]:
    """Let `up` write the file the commands find it by; what stood there comes back afterwards."""
    file = connection_file()
    kept = folder.with_suffix(".before.json")

    def put_back() -> None:
        if kept.exists():
            kept.replace(file)

    put_back()  # a run that was killed
    if file.exists():
        file.rename(kept)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        put_back()


def show(folder: Path) -> None:
    """Start the cluster, lead through it, and stay."""
    with ExitStack() as running:
        say("Starting two container engines and a registry with sample images ...")
        registry = running.enter_context(Registry(folder / "registry", port=preferred(5000)))
        engines = [(group, running.enter_context(DockerEngine(folder / group))) for group in GROUPS]
        samples = push_samples(registry.host)
        server = Server(
            folder / "wharfinger",
            engines,
            {
                "XDG_CONFIG_HOME": str(connection_file().parents[1]),
                "WHARFINGER_AGENT_NETWORK": "none",  # these engines have no bridge
            },
            port=preferred(8080),
        )
        running.enter_context(server)
        server.agents_up()
        lead_through(registry, samples)
        say(what_next(folder, server, samples))
        code = server.wait()
        raise Disappointed(
            f"wharfinger ended ({code}):\n{server.log_path.read_text(errors='replace')[-4000:]}"
        )


def push_samples(host: str) -> Samples:
    """Images of several layers; the next trainer shares most of its layers with the first."""
    base = images.busybox_layer()
    toolkit, weights, new_weights, editor = (
        images.random_layer(f"opt/{name}", size * _MEGABYTE)
        for name, size in (("toolkit", 48), ("weights", 32), ("weights", 32), ("editor", 24))
    )
    images.push(host, "wharf/trainer", "v1", [base, toolkit, weights])
    images.push(host, "wharf/trainer", "v2", [base, toolkit, new_weights])
    images.push(host, "wharf/notebook", "v1", [base, editor])
    return Samples(
        f"{host}/wharf/trainer:v1", f"{host}/wharf/trainer:v2", f"{host}/wharf/notebook:v1"
    )


def lead_through(registry: Registry, samples: Samples) -> None:
    """The tour: commands as a person would type them, with their output."""
    command("registry", "add", f"http://{registry.host}")
    command("agent", "ls")
    command("image", "preload", samples.trainer, samples.notebook, "--all-agents")
    command("image", "unload", samples.notebook, "--agents", f"sgroup:{GROUPS[1]}")
    command("image", "ls")
    command("session", "create", samples.notebook, *SMALL, "--wait", "--", *AT_WORK)
    command("session", "ls")


def command(*arguments: str) -> None:
    """Run one command on this terminal; it does not outlive this process."""
    say(f"\n$ {shlex.join(['wharfinger', *arguments])}")
    done = subprocess.run(
        [PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        check=False,
        preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT),
    )
    if done.returncode != 0:
        raise Disappointed(f"that ended with exit code {done.returncode}")


def what_next(folder: Path, server: Server, samples: Samples) -> str:
    """Where it is, and commands that work in another terminal as they stand.

    They leave the images as they found them, so that the tutorial may come before or after.
    """
    blue, green = GROUPS
    create = ("wharfinger", "session", "create", samples.trainer_next, "--sgroup", green)
    batch = shlex.join([*create, *SMALL, "--wait", "--", "/bin/busybox", "echo", "done"])
    return "\n".join(
        (
            "",
            f"Wharfinger is up at {server.url}",
            f"Token: {server.token_path}",
            "",
            "Try next, in another terminal, as root:",
            f"  export PATH={shlex.quote(str(PROGRAM.parent))}:$PATH",
            f"  wharfinger agent show {blue}-1",
            f"  wharfinger image preload {samples.trainer_next} --agents sgroup:{green}",
            f"  {batch}",
            "  wharfinger task ls",
            f"  docker -H unix://{folder / blue / 'engine.sock'} images",
            f"  wharfinger image unload {samples.trainer_next} --agents sgroup:{green}",
            "",
            "Ctrl-C here stops all of it and removes it.",
        )
    )


def preferred(port: int) -> int:
    """This port where it is free, else another."""
    with socket.socket() as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return port
    return free_port()


def say(text: str) -> None:
    """A line, seen at once."""
    print(text, flush=True)  # noqa: T201 - it speaks to a person


if __name__ == "__main__":
    main()
