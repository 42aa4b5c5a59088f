"""A manager that answers what it is told to, and misbehaves in named ways."""

import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self


class Odd(Enum):
    """What is no answer, or a step of a stream that is no event."""

    CUT = auto()
    """The connection breaks."""
    HOLD = auto()
    """Nothing more, until the manager is stopped."""


Data = dict[str, Any] | Odd
Answer = Data | Callable[[dict[str, Any]], Data]
Step = tuple[str, str, Any] | bytes | Odd
"""`(id, kind, data)` of an event, raw bytes, or something odd."""


@dataclass(frozen=True)
class Request:
    """What a client asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any = None


@dataclass
class OddManager:
    """`answers` are GraphQL data by the operation's name. Each watcher gets the next of `streams`.

    Each reader of a session's log gets the next of `logs`, with `log_headers`.

    `raw` is sent instead of anything else: (status, content type, body).
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    streams: list[Sequence[Step]] = field(default_factory=list)
    raw: tuple[int, str, bytes] | None = None
    logs: list[Sequence[bytes | Odd]] = field(default_factory=list)
    log_headers: dict[str, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    watched: threading.Event = field(default_factory=threading.Event)
    """Set when a stream came to `Odd.HOLD`."""
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"manager": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def refuse(self, status: int, error_class: str, message: str) -> None:
        """Answer everything with this error."""
        error = {"class": error_class, "message": message, "detail": {}}
        self.raw = (status, "application/json", json.dumps({"error": error}).encode())

    def operations(self) -> list[str]:
        """The names of the GraphQL operations asked for, in order."""
        return [_operation(each.body["query"]) for each in self.requests if each.body]

    def watches(self) -> list[Request]:
        """The streams asked for, in order."""
        return [each for each in self.requests if each.method == "GET"]


class _Handler(BaseHTTPRequestHandler):
    manager: ClassVar[OddManager]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._asked(body):
            answer = self.manager.answers[_operation(body["query"])]
            data = answer(body["variables"]) if callable(answer) else answer
            if isinstance(data, Odd):
                self.close_connection = True
                return
            # an answer with errors is given whole
            whole = data if "errors" in data else {"data": data}
            self._send(200, "application/json", json.dumps(whole).encode())

    def do_GET(self) -> None:
        if not self._asked(None):
            return
        if "/logs" in self.path:
            headers = {"Content-Type": "text/plain", **self.manager.log_headers}
            self._stream(self.manager.logs.pop(0), headers)
        else:
            headers = {"Content-Type": "text/event-stream; charset=utf-8"}
            self._stream(self.manager.streams.pop(0), headers)

    def log_message(self, *_: Any) -> None:
        """Nothing: the requests are kept."""

    def _asked(self, body: Any) -> bool:
        """Note the request; False when it is answered already."""
        self.manager.requests.append(
            Request(self.command, self.path, dict(self.headers.items()), body)
        )
        if self.manager.raw:
            self._send(*self.manager.raw)
        return not self.manager.raw

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, steps: Sequence[Step], headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        for step in steps:
            match step:
                case Odd.CUT:
                    return
                case Odd.HOLD:
                    self.manager.watched.set()
                    self.manager.stopped.wait()
                    return
                case bytes(raw):
                    self._chunk(raw)
                case (str(event_id), str(kind), data):
                    self._chunk(
                        f"id: {event_id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()
                    )
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def _operation(document: str) -> str:
    found = re.search(r"\b(?:query|mutation)\s+(\w+)", document)
    assert found, document
    return found.group(1)
