"""The one place that builds the Serve application, for a laptop and a cluster alike."""

from __future__ import annotations

import math
import re
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import RequestRouterConfig

from jevserve.engine.environment import on_cpu
from jevserve.serving.engine import Engine
from jevserve.serving.environment import SERVE_ENVIRONMENT
from jevserve.serving.router import Router
from jevserve.settings import ModelSettings, ServiceSettings

APPLICATION = "jevserve"

#: Serve's own bound on concurrent calls; admission is the router's, so it must not bind first.
UNBOUNDED = 100_000

#: Engine arguments whose product is the number of GPUs that one engine spreads over.
PARALLEL_SIZES = ("tensor_parallel_size", "pipeline_parallel_size")

#: A log line for every request would cost more than routing it; metrics count them.
QUIET = {"enable_access_log": False}

#: Seconds a leaving process may take to answer what it has accepted.
GRACE_S = 30.0


def build(settings: dict[str, Any]) -> Application:
    """The application of ``settings`` (a dumped ``ServiceSettings``): Serve's ``import_path``."""
    parsed = ServiceSettings.model_validate(settings)
    dumped = parsed.model_dump(mode="json")
    engines = {m.name: engine_deployment(m).bind(dumped, m.name) for m in parsed.models}
    router = serve.deployment(
        Router,
        name="Router",
        num_replicas=parsed.router.replicas,
        max_ongoing_requests=UNBOUNDED,
        graceful_shutdown_timeout_s=GRACE_S,
        graceful_shutdown_wait_loop_s=0.1,
        logging_config=QUIET,
        ray_actor_options={"num_cpus": parsed.router.num_cpus},
    )
    return router.bind(dumped, engines)


def engine_deployment(model: ModelSettings) -> Any:
    """The deployment of one model's replicas."""
    return serve.deployment(
        Engine,
        name=deployment_name(model.name),
        num_replicas=model.replicas,
        max_ongoing_requests=UNBOUNDED,
        health_check_period_s=2.0,
        health_check_timeout_s=10.0,
        graceful_shutdown_timeout_s=GRACE_S,
        graceful_shutdown_wait_loop_s=0.1,
        logging_config=QUIET,
        ray_actor_options=actor_options(model),
        request_router_config=RequestRouterConfig(
            request_router_class="jevserve.serving.membership.MembershipRouter"
        ),
    )


def actor_options(model: ModelSettings) -> dict[str, Any]:
    """What Ray reserves for one engine replica."""
    resources = model.resources
    gpus = resources.num_gpus
    if gpus is None:
        sizes = [model.engine_args.get(size, 1) for size in PARALLEL_SIZES]
        on_gpu = resources.device == "gpu" or (resources.device == "auto" and not on_cpu())
        gpus = float(math.prod(s for s in sizes if isinstance(s, int))) if on_gpu else 0.0
    cpus = 1.0 if resources.num_cpus is None else resources.num_cpus
    options: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus}
    if resources.accelerator:
        options["accelerator_type"] = resources.accelerator
    return options


def deployment_name(model: str) -> str:
    """A Serve deployment name; model names may hold characters that it may not."""
    return "Engine-" + re.sub(r"[^A-Za-z0-9_.-]", "_", model)


def cluster_config(settings: ServiceSettings) -> dict[str, Any]:
    """Everything a cluster gets: Serve's configuration, environment and ports.

    ``serve`` is what ``serve deploy`` and a RayService's ``serveConfigV2`` take. Secrets are named,
    not printed: each process reads them from its own environment.
    """
    return {
        "serve": {
            "proxy_location": "EveryNode",
            "http_options": {"host": "0.0.0.0", "port": settings.http.port},
            "applications": [
                {
                    "name": APPLICATION,
                    "route_prefix": "/",
                    "import_path": "jevserve.serving.application:build",
                    "args": settings.model_dump(mode="json"),
                }
            ],
        },
        "environment": dict(SERVE_ENVIRONMENT),
        "secrets": ["JEVSERVE_CLUSTER_SECRET", "JEVSERVE_API_KEYS (optional)"],
        "ports": {
            "http": settings.http.port,
            "engine_metrics": settings.metrics.engine_port,
            "router": "30000 and up, on the router's node",
            "transport": "any free one, on the engine's node",
        },
    }
