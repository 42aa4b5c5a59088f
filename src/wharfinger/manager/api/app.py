"""The application: routes, and the middleware around them."""

from fastapi import FastAPI

from wharfinger import __version__
from wharfinger.manager.api import errors, health, ingest, kernel_logs, stream
from wharfinger.manager.api import metrics as metrics_route
from wharfinger.manager.api.graphql import endpoint
from wharfinger.manager.api.guard import Guard
from wharfinger.manager.api.metrics import Metrics, RequestMetrics
from wharfinger.manager.api.request_id import RequestIds
from wharfinger.manager.api.services import Services


def create_app(services: Services, metrics: Metrics | None = None) -> FastAPI:
    """The API over these services. Others may have added collectors to `metrics`."""
    app = FastAPI(
        title="Wharfinger",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    app.state.metrics = metrics or Metrics()
    for part in (health, metrics_route, endpoint, stream, kernel_logs, ingest):
        app.include_router(part.router)
    errors.install(app)
    # the last one added is the outermost
    app.add_middleware(Guard, access=services.access, routes=app.routes)
    app.add_middleware(RequestMetrics, metrics=app.state.metrics)
    app.add_middleware(RequestIds)
    return app
