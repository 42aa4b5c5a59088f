"""Sessions through the public interfaces: made, watched and waited for."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import httpx2

from rig import processes
from rig.engines import ContainerEngine
from rig.server import Outcome
from rig.sse import Event, Lines

SLEEP: Final = ("--", "/bin/busybox", "sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait")
"""A command that goes on until it is ended, and then ends at once."""
SMALL: Final = ("--cpu", "0.1", "--mem", "64m")

_WITHIN = 60.0

Session = dict[str, Any]


class Wharf(Protocol):
    """A running Wharfinger with a command line: `rig.server.Server`, or a manager of several."""

    @property
    def url(self) -> str:
        """Where it serves."""

    @property
    def token(self) -> str:
        """The superadmin's token."""

    def cli(self, *arguments: str, timeout: float = ..., token: str | None = None) -> Outcome:
        """Run one command to its end."""


def create(server: Wharf, *arguments: str, token: str | None = None) -> Session:
    """`session create`, without waiting; the session."""
    done = server.cli("session", "create", "--json", *arguments, token=token)
    assert done.code == 0, done
    return dict(done.json)


def show(server: Wharf, session_id: str) -> Session:
    """`session show`."""
    done = server.cli("session", "show", session_id, "--json")
    assert done.code == 0, done
    return dict(done.json)


def wait_for(
    server: Wharf,
    session_id: str,
    reached: str | Callable[[Session], bool],
    within: float = _WITHIN,
) -> Session:
    """The session once it is in this state, or as the predicate wants it."""
    seen: Session = {}

    def there() -> bool:
        seen.clear()
        seen.update(show(server, session_id))
        return seen["status"] == reached if isinstance(reached, str) else reached(seen)

    assert processes.wait_until(there, within), seen
    return seen


def states(session: Session, kernel: int = 0) -> list[str]:
    """The states one of its kernels went through, from its log."""
    return [transition["to"] for transition in session["kernels"][kernel]["transitions"]]


def containers(engine: ContainerEngine) -> list[dict[str, Any]]:
    """All containers of an engine that are ours, running or not."""
    listed = engine.api("GET", "/containers/json?all=1")[1] or []
    return [entry for entry in listed if "wharfinger.kernel" in entry["Labels"]]


def running(engine: ContainerEngine, session_id: str) -> list[dict[str, Any]]:
    """The inspected containers of a session that run on this engine."""
    return [
        engine.api("GET", f"/containers/{entry['Id']}/json")[1]
        for entry in containers(engine)
        if entry["Labels"]["wharfinger.session"] == session_id and entry["State"] == "running"
    ]


def nothing_left(server: Wharf, engines: Sequence[ContainerEngine]) -> bool:
    """Whether no container of ours is left anywhere, and no agent's slots are occupied."""
    agents = server.cli("agent", "ls", "--json").json
    occupied = any(any(agent["occupied"].values()) for agent in agents)
    return not occupied and not any(containers(engine) for engine in engines)


def events(server: Wharf, session_id: str) -> Iterator[Event]:
    """The events of `GET /sessions/{id}/events`, until the server closes the stream."""
    with httpx2.stream(
        "GET",
        f"{server.url}/sessions/{session_id}/events",
        headers={"Authorization": f"Bearer {server.token}"},
        timeout=60,
    ) as response:
        response.raise_for_status()
        read = Lines()
        for line in response.iter_lines():
            event = read.take(line)
            if event is not None and event.kind:
                yield event


class Watcher:
    """Reads a session's stream beside the test."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self._ended = False

    @property
    def transitions(self) -> list[tuple[str, str]]:
        """Every (kernel id, state entered), in the order they were told."""
        return [
            (event.data["kernelId"], event.data["transition"]["to"])
            for event in self.events
            if event.kind == "kernel_updated" and event.data["transition"]
        ]

    @property
    def pulls(self) -> list[dict[str, Any]]:
        """Every figure of a pull, in the order they were told."""
        return [
            event.data["pull"]
            for event in self.events
            if event.kind == "kernel_updated" and event.data["pull"]
        ]

    def wait(self, reached: Callable[["Watcher"], bool], within: float = _WITHIN) -> None:
        """Return once it has seen what the predicate wants."""
        with self._changed:
            assert self._changed.wait_for(lambda: reached(self) or self._ended, within), self.events
        assert reached(self), self.events

    def wait_state(self, state: str, within: float = _WITHIN) -> None:
        """Return once some kernel was told to have entered this state."""
        self.wait(lambda seen: any(to == state for _, to in seen.transitions), within)

    def _read(self, stream: Iterator[Event]) -> None:
        try:
            for event in stream:
                with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
        except httpx2.HTTPError:
            pass  # the server was killed by the test
        with self._changed:
            self._ended = True
            self._changed.notify_all()


@contextmanager
def watching(server: Wharf, session_id: str) -> Iterator[Watcher]:
    """The session's stream, read from now on in a thread that ends with the stream."""
    watcher = Watcher()
    thread = threading.Thread(
        target=watcher._read,  # noqa: SLF001 - its own thread
        args=(events(server, session_id),),
        daemon=True,
    )
    thread.start()
    watcher.wait(lambda seen: bool(seen.events))
    yield watcher
