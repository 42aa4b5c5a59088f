"""A manager's two ingest endpoints over real HTTP, that writes down what an agent says.

It stands in for the manager where only the agent is under test, and misbehaves in named ways.
"""

import asyncio
import io
import json
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from wharfinger.contracts.ingest import (
    REGISTER,
    REPORT,
    Acknowledgement,
    Event,
    ImagePullStarted,
    Registered,
    Registration,
    Report,
)
from wharfinger.contracts.rpc import KernelContainer
from wharfinger.domain.errors import Forbidden, StaleIncarnation, Unauthenticated, WharfingerError


class Manners(Enum):
    """How it answers."""

    GOOD = "good"
    LOSES_ACKNOWLEDGEMENTS = "keeps what reports say, but its answer never arrives"
    UNREACHABLE = "answers as a proxy does whose manager is gone"
    SAYS_STALE = "a newer process of this agent has registered"
    SAYS_UNAUTHENTICATED = "knows no credential"
    SAYS_RETIRED = "this agent was retired"


@dataclass(frozen=True)
class Heard:
    """One registration, and the bearer it came with."""

    registration: Registration
    bearer: str


class RecordingManager:
    """Speaks `contracts/ingest.py` at `url`; what it kept stands in its lists."""

    JOIN_TOKEN = "join-me"
    CLUSTER_ID = "cluster-1"

    def __init__(self, *, report_seconds: float = 0.2) -> None:
        self.manners = Manners.GOOD
        self.report_seconds = report_seconds
        self.registrations: list[Heard] = []
        self.reports: list[Report] = []
        self.refusals = 0
        self.credential = ""
        self.url = ""
        self._heard = asyncio.Condition()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Serve on a free port of loopback while the context is open."""
        app = Starlette(
            routes=[
                Route(REGISTER, self._register, methods=["POST"]),
                Route(REPORT, self._report, methods=["POST"]),
            ],
            exception_handlers={WharfingerError: _refuse},
        )
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = _Server(
            uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield self
        finally:
            server.should_exit = True
            await serving

    @property
    def registration(self) -> Registration:
        """The last one."""
        return self.registrations[-1].registration

    @property
    def last(self) -> Report:
        """The last report."""
        return self.reports[-1]

    @property
    def events(self) -> list[Event]:
        """Every event once, by incarnation and sequence."""
        seen = {
            (report.incarnation, event.sequence): event
            for report in self.reports
            for event in report.events
        }
        return list(seen.values())

    def ends(self, attempt_id: str) -> list[Event]:
        """The terminal events of an attempt."""
        return [
            event
            for event in self.events
            if event.attempt_id == attempt_id and not isinstance(event, ImagePullStarted)
        ]

    def images(self) -> dict[str, str]:
        """The last inventory heard: reference to image id."""
        listings = [each.inventory for each in self.reports if each.inventory is not None]
        if not listings:
            return {}
        return {
            name: image.image_id
            for image in listings[-1].images
            for name in (*image.tags, *image.digests)
        }

    async def until(self, what: Callable[[], bool], within: float = 20.0) -> None:
        """Return when something the agent said made `what` true."""
        async with asyncio.timeout(within), self._heard:
            await self._heard.wait_for(what)

    async def end_of(self, attempt_id: str, within: float = 20.0) -> Event:
        """The attempt's terminal event, once it is heard."""
        await self.until(lambda: bool(self.ends(attempt_id)), within)
        return self.ends(attempt_id)[0]

    async def call(
        self,
        path: str,
        body: Any,
        *,
        token: str | None = None,
        incarnation: str | None = None,
        deadline: float = 10.0,
    ) -> tuple[int, Any]:
        """Call the agent that registered last: status and decoded answer."""
        agent = self.registration
        if isinstance(body, dict):
            body = {
                "incarnation": incarnation or agent.incarnation,
                "deadlineSeconds": deadline,
                **body,
            }
        headers = {"Authorization": f"Bearer {token or agent.call_token}"}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=deadline + 5)) as session,
            session.post(
                agent.address + path, data=io.BytesIO(json.dumps(body).encode()), headers=headers
            ) as response,
        ):
            return response.status, await response.json()

    @asynccontextmanager
    async def stream(
        self, path: str, body: dict[str, Any]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Call the agent that registered last: the response as it comes, left with the context."""
        agent = self.registration
        body = {"incarnation": agent.incarnation, "deadlineSeconds": 10.0, **body}
        headers = {"Authorization": f"Bearer {agent.call_token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(agent.address + path, json=body, headers=headers) as response,
        ):
            yield response

    def container(self, kernel_id: str) -> KernelContainer | None:
        """What the last report says of a kernel's container."""
        found = (each for each in self.last.containers or () if each.kernel_id == kernel_id)
        return next(found, None)

    async def _register(self, request: Request) -> Response:
        await self._mind_manners()
        bearer = _bearer(request)
        if bearer not in {self.JOIN_TOKEN, self.credential or None}:
            raise Unauthenticated
        self.registrations.append(
            Heard(Registration.model_validate_json(await request.body()), bearer)
        )
        await self._ring()
        if bearer == self.JOIN_TOKEN:
            self.credential = secrets.token_hex(8)
            return _answer(Registered(credential=self.credential, cluster_id=self.CLUSTER_ID))
        return _answer(Registered(cluster_id=self.CLUSTER_ID))

    async def _report(self, request: Request) -> Response:
        if self.manners is not Manners.LOSES_ACKNOWLEDGEMENTS:
            await self._mind_manners()
        if _bearer(request) != self.credential:
            raise Unauthenticated
        report = Report.model_validate_json(await request.body())
        self.reports.append(report)
        await self._ring()
        if self.manners is Manners.LOSES_ACKNOWLEDGEMENTS:
            return PlainTextResponse("Bad Gateway", 502)
        return _answer(
            Acknowledgement(
                sequence=max((event.sequence for event in report.events), default=0),
                inventory_version=report.inventory_version,
                report_seconds=self.report_seconds,
            )
        )

    async def _mind_manners(self) -> None:
        refusals: dict[Manners, type[WharfingerError]] = {
            Manners.SAYS_STALE: StaleIncarnation,
            Manners.SAYS_UNAUTHENTICATED: Unauthenticated,
            Manners.SAYS_RETIRED: Forbidden,
            Manners.UNREACHABLE: _Unreachable,
        }
        if self.manners in refusals:
            self.refusals += 1
            await self._ring()
            raise refusals[self.manners]

    async def _ring(self) -> None:
        async with self._heard:
            self._heard.notify_all()


class _Unreachable(WharfingerError):
    """The proxy finds no manager."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _bearer(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ")


def _answer(body: Registered | Acknowledgement) -> Response:
    return JSONResponse(body.to_wire())


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, WharfingerError)
    if isinstance(error, _Unreachable):
        # as proxies do: in a language, an encoding and a form of their own
        return Response("<h1>Passerelle erron\xe9e</h1>".encode("latin-1"), 502)
    statuses = {Unauthenticated: 401, Forbidden: 403, StaleIncarnation: 409}
    return JSONResponse({"error": error.to_json()}, statuses[type(error)])
