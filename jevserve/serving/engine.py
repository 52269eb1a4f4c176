"""The Engine deployment: one vLLM engine behind one transport server."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import ray
from ray import serve

from jevserve.adapters.registry import find
from jevserve.checkpoints.prepare import prepare
from jevserve.checkpoints.progress import LogProgress
from jevserve.engine import environment
from jevserve.engine.arguments import kv_cache_gib
from jevserve.serving.models import limited, tls_files
from jevserve.settings import ServiceSettings
from jevserve.telemetry.engine import serve_metrics
from jevserve.transport.secret import ClusterSecret
from jevserve.transport.server import TransportServer

log = logging.getLogger("jevserve.serving")


class Engine:
    """One replica of one model. Ready once constructed: the self-test has been answered."""

    async def __init__(self, settings: dict[str, Any], name: str) -> None:
        self._settings = ServiceSettings.model_validate(settings)
        model = next(m for m in self._settings.models if m.name == name)
        # First what can be wrong: loading a model takes minutes.
        secret = ClusterSecret.from_environment()
        # Before the environment: an engine takes the hub's client offline.
        prepared = await asyncio.to_thread(
            prepare,
            model.source,
            cache=self._settings.cache,
            protocol=model.protocol,
            progress=LogProgress(),
        )
        prepared = limited(prepared, model)
        profile = find(prepared.protocol).engine_profile(prepared)
        cache_gib = kv_cache_gib(prepared, profile, model)
        environment.apply(cache_gib, model.resources.num_cpus or 1)
        # After the environment is complete: this is where vLLM may be imported.
        from jevserve.engine.replica import EngineReplica

        self._name = serve.get_replica_context().replica_id.unique_id
        self._replica = EngineReplica(model, prepared, profile, self._name)
        await self._replica.start()
        self._server = TransportServer(
            self._replica,
            secret,
            self._settings.transport.host,
            tls=tls_files(self._settings),
        )
        await self._server.start()
        metrics = self._settings.metrics
        self._metrics_port = serve_metrics(self._replica.report, metrics.host, metrics.engine_port)

    def record_replica_metadata(self) -> dict[str, Any]:
        """Where routers find this replica's transport server, and scrapers its metrics."""
        host = self._settings.transport.host or ray.util.get_node_ip_address()
        return {"host": host, "port": self._server.port, "metrics_port": self._metrics_port}

    def check_health(self) -> None:
        """Called by Serve; raising takes the replica out and starts another."""
        if not self._replica.healthy:
            raise RuntimeError("the vLLM engine has died")

    async def decide(self, payload: bytes, replica: str = "") -> bytes:
        """The handle fallback: a transport message in, a transport message out."""
        return await self._server.answer(payload)

    async def report(self, replica: str = "") -> bytes:
        return self._server.report()

    async def __del__(self) -> None:
        # Serve has taken the replica out of membership; what was accepted is still answered.
        if hasattr(self, "_server"):
            await self._server.drain()
            await self._server.stop()
            self._replica.stop()
