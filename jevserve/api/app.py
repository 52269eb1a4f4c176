"""The application: the door in front of the endpoints."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import Route

from jevserve import __version__
from jevserve.api import paths
from jevserve.api.auth import Keys
from jevserve.api.body import BodyLimits
from jevserve.api.door import Door
from jevserve.api.endpoints import ApiOptions, Endpoints
from jevserve.api.service import DecisionService
from jevserve.telemetry.metrics import HttpMetrics

__all__ = ["ApiOptions", "BodyLimits", "Keys", "build_app"]


def build_app(
    service: DecisionService,
    options: ApiOptions | None = None,
    metrics: HttpMetrics | None = None,
) -> FastAPI:
    """The HTTP application in front of ``service``.

    Args:
        service: what decides.
        options: how the door behaves; the defaults let everybody in.
        metrics: the registry behind ``/metrics``, for a process that records more than HTTP.
    """
    options = options if options is not None else ApiOptions()
    metrics = metrics if metrics is not None else HttpMetrics()
    app = FastAPI(
        title="jevserve",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    endpoints = Endpoints(service, options, metrics)
    handlers = {
        paths.SYSTEM_ONE: endpoints.systemone,
        paths.DECISIONS: endpoints.decisions,
        paths.MODELS: endpoints.models,
        paths.HEALTHZ: endpoints.healthz,
        paths.READYZ: endpoints.readyz,
        paths.METRICS: endpoints.metrics,
        paths.OPENAPI: endpoints.openapi,
        paths.DOCS: endpoints.docs,
        paths.PAGE: endpoints.page,
    }
    for endpoint, handler in handlers.items():
        app.router.routes.append(Route(endpoint.path, handler, methods=list(endpoint.methods)))
    app.add_middleware(
        Door, root_path=options.root_path, metrics=metrics, correlate=options.correlate
    )
    return app
