"""The Router deployment: the HTTP door of one process in front of its decision service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.handle import DeploymentHandle

from jevserve.api.app import ApiOptions, BodyLimits, build_app
from jevserve.api.auth import load_keys
from jevserve.serving.fleet import Fleet
from jevserve.serving.membership import MEMBERSHIP, TARGET, Members
from jevserve.serving.models import served, tls_files
from jevserve.serving.service import RouterService
from jevserve.settings import ServiceSettings
from jevserve.transport.base import KeptLink
from jevserve.transport.connection import ConnectionLink
from jevserve.transport.handle import HandleLink
from jevserve.transport.pool import Address, LinkPool
from jevserve.transport.secret import ClusterSecret


@serve.ingress()
class Router:
    """One router process: stateless, so any number of them gives the same answers."""

    async def __init__(
        self, settings: dict[str, Any], engines: Mapping[str, DeploymentHandle]
    ) -> None:
        self._settings = ServiceSettings.model_validate(settings)
        self._secret = ClusterSecret.from_environment()
        models, fleets = {}, {}
        for model in self._settings.models:
            models[model.name] = await asyncio.to_thread(served, model, self._settings)
            fleets[model.name] = self._fleet(engines[model.name])
        self._service = RouterService(self._settings, models, fleets, self._secret)

    def __serve_build_asgi_app__(self) -> FastAPI:
        http = self._settings.http
        return build_app(
            self._service,
            ApiOptions(
                keys=load_keys(http.keys_file, os.environ),
                body=BodyLimits(encoded=http.max_body_bytes, decoded=http.max_body_bytes),
                strict_fields=http.strict_fields,
                root_path=http.root_path,
                correlate=False,  # Serve does
                page=http.page,
            ),
        )

    async def drain(self) -> None:
        """Refuse new decisions; returns when every accepted one is answered."""
        await self._service.drain()

    def _fleet(self, engine: DeploymentHandle) -> Fleet:
        """A fleet whose links follow Serve's membership of one deployment."""
        over_handle = self._settings.transport.kind == "handle"
        tls = tls_files(self._settings)

        def connect(address: Address) -> KeptLink:
            if not over_handle:
                return ConnectionLink(address.host, address.port, self._secret, tls)
            target = {TARGET: address.host}

            async def decide(payload: bytes) -> bytes:
                call = engine.decide.remote(payload, **target)
                try:
                    return await call
                except asyncio.CancelledError:
                    # Serve lets a call run on that nobody awaits any more.
                    call.cancel()
                    raise

            return HandleLink(decide, lambda: engine.report.remote(**target))

        pool = LinkPool(connect)
        loop = asyncio.get_running_loop()

        def members_changed(members: Members) -> None:
            # A handle link is addressed by replica id, not by host and port.
            known = {r: Address(r, 0) for r in members} if over_handle else dict(members)
            loop.call_soon_threadsafe(pool.update, known)

        MEMBERSHIP.listen(engine.deployment_name, members_changed)
        # Serve only follows a deployment's replicas once its handle has been used.
        engine.options(method_name="decide")
        return Fleet(pool)
