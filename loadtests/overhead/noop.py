"""A no-op engine: takes planned decisions and answers them at once with one and the same vector."""

from __future__ import annotations

from typing import Any

from jevserve.checkpoints.prepare import prepare
from jevserve.decisions.plan import DecisionResult, PlannedDecision, RowResult
from jevserve.serving import application
from jevserve.serving.engine import Engine
from jevserve.settings import ServiceSettings
from jevserve.transport.base import DecisionExecutor, ReplicaReport, ReplicaState
from jevserve.transport.secret import ClusterSecret
from jevserve.transport.server import TransportServer

#: As long as a vector of the default model.
VECTOR = (0.05,) * 384


def answered(decision: PlannedDecision) -> DecisionResult:
    """Numbers of the right shape for every row of the default model's plan."""
    rows = tuple(RowResult(VECTOR, 0, 1) for _ in decision.plan.rows)
    return DecisionResult(decision.id, rows, engine_ms=0.0)


class NoOpExecutor(DecisionExecutor):
    """Always ready, never busy."""

    def __init__(self, name: str, model: str, revision: str) -> None:
        self._report = ReplicaReport(name, model, revision, ReplicaState.READY, 0, 1e9)

    async def execute(self, decision: PlannedDecision) -> DecisionResult:
        return answered(decision)

    def report(self) -> ReplicaReport:
        return self._report

    async def drain(self) -> None:
        pass


class NoOpEngine(Engine):
    """The Engine deployment without an engine: everything but vLLM is the real thing."""

    async def __init__(self, settings: dict[str, Any], name: str) -> None:
        from ray import serve

        self._settings = ServiceSettings.model_validate(settings)
        model = next(m for m in self._settings.models if m.name == name)
        revision = prepare(model.source, cache=self._settings.cache).revision
        replica = serve.get_replica_context().replica_id.unique_id
        self._server = TransportServer(
            NoOpExecutor(replica, name, revision),
            ClusterSecret.from_environment(),
            self._settings.transport.host,
        )
        await self._server.start()
        self._metrics_port = 0

    def check_health(self) -> None:
        pass

    async def __del__(self) -> None:
        if hasattr(self, "_server"):
            await self._server.drain()
            await self._server.stop()


def use_noop_engines() -> None:
    """Have ``application.build`` deploy no-op engines in this process."""
    application.Engine = NoOpEngine
