"""An HTTP proxy before a registry that misbehaves by rule.

    with FaultProxy(registry.host) as proxy:
        proxy.rules(Rate(r"GET .*/blobs/", bytes_per_second=100_000))
        ...                                # let an engine pull from proxy.host
        proxy.log                          # what was asked, and how many bytes were sent

A rule applies to requests whose `METHOD /path` its pattern is found in; the first that does, wins.
Setting other rules frees what the earlier ones hold up.
"""

import contextlib
import http.client
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from rig.ports import free_port


@dataclass(kw_only=True)
class Rule:
    """Applies to `times` requests, or to all (None)."""

    match: str = field(kw_only=False)
    times: int | None = None


@dataclass(kw_only=True)
class Status(Rule):
    """Answer this instead of asking the registry."""

    code: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Rate(Rule):
    """Send the body no faster than this."""

    bytes_per_second: int


@dataclass(kw_only=True)
class Stall(Rule):
    """Send nothing more after so many bytes of the body, and keep the connection."""

    after: int = 0


@dataclass(kw_only=True)
class Cut(Rule):
    """Close the connection after so many bytes of the body."""

    after: int = 0


@dataclass(kw_only=True)
class Flip(Rule):
    """Invert the byte of the body at this offset."""

    offset: int = 0


@dataclass(kw_only=True)
class Delay(Rule):
    """Ask the registry only after so long."""

    seconds: float


@dataclass
class Exchange:
    """One request and what became of it; `sent` grows while the body is sent."""

    method: str
    path: str
    headers: dict[str, str]
    rule: Rule | None
    at: float
    """When it came, on `time.monotonic`."""
    status: int | None = None
    sent: int = 0
    """Bytes of the body sent so far."""
    ended: bool = False
    """Nothing more will be sent."""
    client_left: bool = False
    """The client closed before the end."""


class FaultProxy:
    """Forwards to `upstream_host` (`host:port`), following the rules set last."""

    def __init__(self, upstream_host: str, *, port: int | None = None) -> None:
        self.upstream_host = upstream_host
        self.host = f"127.0.0.1:{port or free_port()}"
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._log: list[Exchange] = []
        self._freed = threading.Event()
        self._clients: set[socket.socket] = set()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def rules(self, *rules: Rule) -> None:
        """Follow these from now on; none means to forward faithfully."""
        with self._lock:
            self._rules = list(rules)
            self._freed.set()
            self._freed = threading.Event()

    @property
    def log(self) -> list[Exchange]:
        """Every request so far, oldest first."""
        with self._lock:
            return list(self._log)

    def forget(self) -> None:
        """Empty the log."""
        with self._lock:
            self._log.clear()

    @property
    def bytes_sent(self) -> int:
        """Bytes of bodies sent so far, in all."""
        return sum(exchange.sent for exchange in self.log)

    def wait_for(
        self, match: str, *, sent: int = 0, ended: bool = False, within: float = 10.0
    ) -> Exchange:
        """The first request `match` is found in, once `sent` bytes went out (or it has ended)."""

        def reached(exchange: Exchange) -> bool:
            key = f"{exchange.method} {exchange.path}"
            enough = exchange.ended if ended else exchange.sent >= sent
            return enough and re.search(match, key) is not None

        return self._wait(reached, within, f"no request {match!r} with {sent} bytes sent")

    def start(self) -> None:
        address, _, port = self.host.rpartition(":")
        self._server = _Server((address, int(port)), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="proxy"
        )
        self._thread.start()

    def stop(self) -> None:
        """Close every connection and refuse new ones. A start later uses the same port."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self.rules()
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            _shut(client)
        self._server.server_close()
        self._thread.join()
        self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _begin(self, method: str, path: str, headers: dict[str, str]) -> tuple[Exchange, "_Hold"]:
        with self._lock:
            rule = self._take_rule(f"{method} {path}")
            exchange = Exchange(method, path, headers, rule, time.monotonic())
            self._log.append(exchange)
            return exchange, _Hold(self._freed)

    def _take_rule(self, key: str) -> Rule | None:
        for rule in self._rules:
            if rule.times != 0 and re.search(rule.match, key):
                if rule.times is not None:
                    rule.times -= 1
                return rule
        return None

    def _connected(self, client: socket.socket) -> None:
        with self._lock:
            self._clients.add(client)

    def _disconnected(self, client: socket.socket) -> None:
        with self._lock:
            self._clients.discard(client)

    def _wait(self, reached: Callable[[Exchange], bool], within: float, what: str) -> Exchange:
        deadline = time.monotonic() + within
        while True:
            for exchange in self.log:
                if reached(exchange):
                    return exchange
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} within {within} s: {self.log}")
            time.sleep(0.01)


class _ClientLeft(Exception):
    """The client closed its connection."""


class _CutByRule(Exception):
    """We closed the connection."""


class _Hold:
    """Waits that end early when other rules are set."""

    def __init__(self, freed: threading.Event) -> None:
        self._freed = freed

    def sleep(self, seconds: float) -> None:
        self._freed.wait(seconds)

    def stall(self, client: socket.socket) -> None:
        """Until other rules are set; raises when the client leaves first."""
        while not self._freed.is_set():
            readable, _, _ = select.select([client], [], [], 0.05)
            if readable:
                raise _ClientLeft


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is what this proxy is for."""


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        def __init__(self, *arguments: Any) -> None:
            self.proxy = proxy
            super().__init__(*arguments)

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base's name
        """Silent: the proxy keeps its own log."""

    def handle(self) -> None:
        self.proxy._connected(self.connection)  # noqa: SLF001 - the handler is part of the proxy
        try:
            if not self._speaks_tls():
                super().handle()
        except OSError:
            pass
        finally:
            self.proxy._disconnected(self.connection)  # noqa: SLF001 - as above

    def _speaks_tls(self) -> bool:
        """Engines try HTTPS first; the containerd store takes only an HTTP answer for a no."""
        if self.connection.recv(1, socket.MSG_PEEK) != b"\x16":
            return False
        self.connection.recv(65536)
        self.connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\nThis is plain HTTP.\n")
        return True

    def _forward(self) -> None:
        exchange, hold = self.proxy._begin(  # noqa: SLF001 - the handler is part of the proxy
            self.command, self.path, dict(self.headers.items())
        )
        try:
            rule = exchange.rule
            if isinstance(rule, Status):
                self._answer(exchange, rule)
                return
            if isinstance(rule, Delay):
                hold.sleep(rule.seconds)
            self._relay(exchange, hold)
        except _ClientLeft:
            exchange.client_left = True
            self.close_connection = True
        except (_CutByRule, OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            exchange.ended = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _forward  # noqa: N815 - the base's names

    def _answer(self, exchange: Exchange, rule: Status) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = rule.body.encode()
        exchange.status = rule.code
        self.send_response(rule.code)
        for name, value in rule.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            exchange.sent = len(body)

    def _relay(self, exchange: Exchange, hold: _Hold) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream = http.client.HTTPConnection(self.proxy.upstream_host, timeout=120)
        try:
            # headers one by one: engines send several Accept lines, and a registry that sees only
            # one of them converts the manifest; Host as it is, since Locations are made from it
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "connection":
                    upstream.putheader(name, value)
            upstream.endheaders(body or None)
            response = upstream.getresponse()
            self._send_head(exchange, response)
            if self.command != "HEAD":
                self._send_body(exchange, response, hold)
        finally:
            upstream.close()

    def _send_head(self, exchange: Exchange, response: http.client.HTTPResponse) -> None:
        exchange.status = response.status
        self.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() not in {"connection", "transfer-encoding"}:
                self.send_header(name, value)
        if response.getheader("Content-Length") is None and self.command != "HEAD":
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()

    def _send_body(
        self, exchange: Exchange, response: http.client.HTTPResponse, hold: _Hold
    ) -> None:
        rule = exchange.rule
        size = 65536
        if isinstance(rule, Rate):
            size = max(1024, min(size, rule.bytes_per_second // 20))
        while data := response.read1(size):
            if isinstance(rule, Flip) and 0 <= (at := rule.offset - exchange.sent) < len(data):
                data = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
            if isinstance(rule, Cut | Stall) and exchange.sent <= rule.after < exchange.sent + len(
                data
            ):
                data = self._interrupt(exchange, rule, data, hold)
            self._send(exchange, data)
            if isinstance(rule, Rate):
                hold.sleep(len(data) / rule.bytes_per_second)

    def _interrupt(self, exchange: Exchange, rule: Cut | Stall, data: bytes, hold: _Hold) -> bytes:
        """Send up to the rule's point, and do there what it says; what is left to send."""
        before = rule.after - exchange.sent
        self._send(exchange, data[:before])
        if isinstance(rule, Cut):
            _shut(self.connection)
            raise _CutByRule
        hold.stall(self.connection)
        return data[before:]

    def _send(self, exchange: Exchange, data: bytes) -> None:
        try:
            self.wfile.write(data)
        except OSError as error:
            raise _ClientLeft from error
        exchange.sent += len(data)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
