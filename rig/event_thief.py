"""A relay before a manager that loses events of one kind, and lets the agent think they arrived."""

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from rig.ports import free_port
from wharfinger.contracts.ingest import REPORT


class EventThief:
    """Forwards what agents post, without the events whose type is `kind`; `stolen` counts them."""

    def __init__(self, manager_url: str, kind: str) -> None:
        self._manager = urlsplit(manager_url).netloc
        self._kind = kind
        self.stolen = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def relay(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """The manager's answer to one post."""
        taken = 0
        if path == REPORT:
            report = json.loads(body)
            lost = [event for event in report["events"] if event["type"] == self._kind]
            report["events"] = [event for event in report["events"] if event not in lost]
            self.stolen += len(lost)
            taken = max((event["sequence"] for event in lost), default=0)
            body = json.dumps(report).encode()
        connection = http.client.HTTPConnection(self._manager, timeout=30)
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if taken and response.status == 200:  # noqa: PLR2004 - an HTTP status
            acknowledged = json.loads(answer)
            acknowledged["sequence"] = max(acknowledged["sequence"], taken)
            answer = json.dumps(acknowledged).encode()
        return response.status, answer

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(thief: EventThief) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            passed_on = ("Authorization", "Content-Type")
            headers = {name: self.headers[name] for name in passed_on if name in self.headers}
            try:
                status, answer = thief.relay(self.path, body, headers)
            except OSError:
                status, answer = 502, b"{}"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    return Handler
