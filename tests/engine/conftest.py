"""Real vLLM engines on tiny random checkpoints, one at a time, shared by the tests of a module."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jevserve.adapters.base import Adapter, Prepared
from jevserve.adapters.registry import find
from jevserve.checkpoints.prepare import prepare
from jevserve.checkpoints.tokenizer import FileTokenizer
from jevserve.decisions.answers import assemble
from jevserve.decisions.plan import DecisionResult, Plan, PlannedDecision
from jevserve.decisions.request import Answer, DecisionRequest
from jevserve.engine import environment
from jevserve.settings import ModelSettings
from tests.engine.schedulers import RECORD_FILE
from tests.make_checkpoints import make

# One thread: the same prompt then gives the same bits, cached or not.
os.environ["OMP_NUM_THREADS"] = "1"
environment.apply(kv_cache_gib=1, num_cpus=1)
if environment.on_cpu():
    # The engine's process is forked from this one, which has imported vLLM already: seconds
    # instead of half a minute an engine. CUDA does not survive a fork.
    os.environ.setdefault("VLLM_WORKER_MULTIPROCESSING_METHOD", "fork")

LONG = 60_000


@dataclass
class RunningEngine:
    """An engine replica, what is needed to plan for it, and what its scheduler wrote down."""

    replica: Any
    adapter: Adapter
    prepared: Prepared
    tokenizer: FileTokenizer
    record_file: Path

    def plan(self, request: DecisionRequest) -> Plan:
        return self.adapter.plan(request, self.tokenizer, self.prepared)

    def decision(self, plan: Plan, id: str = "d", salt: str = "") -> PlannedDecision:
        return PlannedDecision(id, self.prepared.revision, plan, salt=salt, deadline_ms=LONG)

    async def run(self, request: DecisionRequest, id: str = "d", salt: str = "") -> DecisionResult:
        return await self.replica.execute(self.decision(self.plan(request), id, salt))

    async def answers(self, request: DecisionRequest, salt: str = "") -> dict[str, Answer]:
        plan = self.plan(request)
        result = await self.replica.execute(self.decision(plan, salt=salt))
        return dict(assemble(request, plan, result.rows))

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = self.record_file.read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["event"] == kind]


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="session")
def model_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


Edit = Callable[[Prepared], Prepared]


def unchanged(prepared: Prepared) -> Prepared:
    return prepared


async def running(
    name: str,
    checkpoints: Path,
    cache: Path,
    record_file: Path,
    edit: Edit,
    **engine_args: Any,
) -> AsyncIterator[RunningEngine]:
    """Start an engine on a tiny checkpoint or an embedded model; stop it afterwards."""
    from jevserve.engine.replica import EngineReplica

    source = name if name == "jev-embed" else str(make(name, checkpoints))
    prepared = edit(prepare(source, cache=cache))
    adapter = find(prepared.protocol)
    os.environ[RECORD_FILE] = str(record_file)
    engine_args = {"scheduler_cls": "tests.engine.schedulers.RecordingScheduler"} | engine_args
    # What a machine needs besides, such as {"gdn_prefill_backend": "triton"} without FlashInfer.
    engine_args |= json.loads(os.environ.get("JEVSERVE_TEST_ENGINE_ARGS", "{}"))
    model = ModelSettings(name=name, checkpoint=source, max_model_len=4096, engine_args=engine_args)
    replica = EngineReplica(model, prepared, adapter.engine_profile(prepared), "replica-0")
    await replica.start()
    try:
        yield RunningEngine(replica, adapter, prepared, FileTokenizer(prepared.path), record_file)
    finally:
        replica.stop()
