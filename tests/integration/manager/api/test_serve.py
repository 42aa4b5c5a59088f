"""The server in a shared event loop."""

import asyncio
import socket
import time
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from wharfinger.manager.api.serve import ApiServer, CannotListen, listen


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def never_answer(_scope: Scope, _receive: Receive, _send: Send) -> None:
    await asyncio.Event().wait()


async def ask(host: str, port: int) -> bytes:
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        got = await reader.read()
        writer.close()
        await writer.wait_closed()
    return got


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("localhost", ["127.0.0.1"]),
        pytest.param("::1", ["::1"], marks=needs_ipv6),
        pytest.param("::", ["::1", "127.0.0.1"], marks=needs_ipv6),
        ("0.0.0.0", ["127.0.0.1"]),
    ],
)
async def test_it_answers_on_every_address_of_its_host(host: str, asked: list[str]) -> None:
    server = ApiServer(answer, listen(host, 0), asyncio.Event())
    serving = asyncio.create_task(server.serve())
    for address in asked:
        assert (await ask(address, server.port)).endswith(b"ok")
    await server.stop()
    await serving


async def test_connections_made_before_it_serves_are_served() -> None:
    server = ApiServer(answer, listen("127.0.0.1", 0), asyncio.Event())
    early = asyncio.create_task(ask("127.0.0.1", server.port))
    serving = asyncio.create_task(server.serve())
    assert (await early).endswith(b"ok")
    await server.stop()
    await serving


def test_a_taken_port_is_named() -> None:
    (taken,) = listen("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with taken, pytest.raises(CannotListen, match=f"127.0.0.1 port {port}: Address already in use"):
        listen("127.0.0.1", port)


@pytest.fixture
def localhost_of_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine's hosts file says."""
    really = socket.getaddrinfo

    def both(_host: str, port: int, **hints: Any) -> list[Any]:
        return [*really("127.0.0.1", port, **hints), *really("::1", port, **hints)]

    monkeypatch.setattr(socket, "getaddrinfo", both)


@needs_ipv6
@pytest.mark.usefixtures("localhost_of_both_families")
def test_a_host_of_both_families_has_one_port() -> None:
    sockets = listen("localhost", 0)
    assert [bound.family for bound in sockets] == [socket.AF_INET, socket.AF_INET6]
    assert len({bound.getsockname()[1] for bound in sockets}) == 1
    for bound in sockets:
        bound.close()


def test_an_address_that_is_not_here_is_left_out_beside_one_that_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    really = socket.getaddrinfo

    def one_elsewhere(_host: str, port: int, **hints: Any) -> list[Any]:
        return [*really("192.0.2.1", port, **hints), *really("127.0.0.1", port, **hints)]

    monkeypatch.setattr(socket, "getaddrinfo", one_elsewhere)
    (bound,) = listen("localhost", 0)
    assert bound.getsockname()[0] == "127.0.0.1"
    bound.close()


def test_whoever_vanishes_from_a_silent_connection_is_probed_for() -> None:
    (bound,) = listen("127.0.0.1", 0)
    with bound, socket.create_connection(bound.getsockname()):
        bound.setblocking(True)
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 30


@needs_ipv6
@pytest.mark.usefixtures("localhost_of_both_families")
def test_a_port_taken_on_one_family_only_is_named_and_nothing_stays_bound() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"::1 port {port}"):
            listen("localhost", port)
    for again in listen("localhost", port):
        again.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "::ffff", "a" * 300, ".."])
def test_a_host_that_is_not_here_is_said(host: str) -> None:
    with pytest.raises(CannotListen) as caught:
        listen(host, 0)
    assert caught.value.detail["host"] == host


async def test_stopping_before_it_serves_and_twice_are_fine() -> None:
    server = ApiServer(answer, listen("127.0.0.1", 0), asyncio.Event())
    await server.stop()
    await server.stop()
    await server.serve()
    served = ApiServer(answer, listen("127.0.0.1", 0), asyncio.Event())
    serving = asyncio.create_task(served.serve())
    assert await ask("127.0.0.1", served.port)
    await asyncio.gather(served.stop(), served.stop())
    await serving
    await served.stop()


async def test_stopping_sets_the_drain_and_waits_for_no_one_longer_than_its_grace() -> None:
    drain = asyncio.Event()
    server = ApiServer(never_answer, listen("127.0.0.1", 0), drain)
    serving = asyncio.create_task(server.serve())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await writer.drain()
    idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", server.port)
    began = time.monotonic()
    stopping = asyncio.create_task(server.stop())
    await drain.wait()
    await stopping
    await serving
    assert time.monotonic() - began < 5
    for end in (reader, idle_reader):
        async with asyncio.timeout(5):
            await asyncio.gather(end.read(), return_exceptions=True)
    for end_of in (writer, idle_writer):
        end_of.transport.abort()
