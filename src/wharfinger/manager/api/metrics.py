"""Metrics in the Prometheus text format, from a registry of our own."""

import asyncio
import time

from fastapi import APIRouter, Request
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wharfinger.manager.api.guard import route_template

router = APIRouter()


class Metrics:
    """What is counted of the API; others add their own collectors."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.requests = Counter(
            "wharfinger_http_requests_total",
            "Requests that ended, by route and status.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "wharfinger_http_request_seconds",
            "Seconds until the response began, by route.",
            ("method", "route"),
            registry=self.registry,
        )
        self.open_streams = Gauge(
            "wharfinger_open_streams", "Event streams open now.", registry=self.registry
        )

    def add_collector(self, collector: Collector) -> None:
        """Have `collector` asked at each scrape. It must not block."""
        self.registry.register(collector)


class RequestMetrics:
    """Middleware that counts and times."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app and note how it went."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # a method is the client's word: only those in use become labels
        method = scope["method"] if scope["method"] in {"GET", "POST"} else "other"
        route = route_template(scope["path"])
        began = time.monotonic()
        status = 500

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._metrics.seconds.labels(method, route).observe(time.monotonic() - began)
            await send(message)

        try:
            await self._app(scope, receive, observed)
        finally:
            self._metrics.requests.labels(method, route, str(status)).inc()


@router.get("/metrics")
async def show(request: Request) -> Response:
    """All metrics."""
    metrics: Metrics = request.app.state.metrics
    # some collectors read files
    text = await asyncio.to_thread(generate_latest, metrics.registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
