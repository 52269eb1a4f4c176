"""A real engine asked the same decision twice: what its cache gave, in tokens."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from jevserve.adapters.base import Adapter, Prepared, Tokenizer
from jevserve.adapters.registry import find
from jevserve.checkpoints.prepare import prepare
from jevserve.checkpoints.tokenizer import FileTokenizer
from jevserve.decisions.plan import DecisionResult, Plan, PlannedDecision
from jevserve.doctor.layout import plan_of, shared_tokens
from jevserve.engine import environment
from jevserve.engine.arguments import kv_cache_gib
from jevserve.settings import ModelSettings

DEADLINE_MS = 60_000
MAX_WORDS = 16_384


def run(given: dict[str, Any]) -> dict[str, Any]:
    """Facts of a trial of ``given["model"]`` with the cache folder ``given["cache"]``.

    Raises:
        Exception: whatever keeps the engine from starting or answering.
    """
    model = ModelSettings.model_validate(given["model"])
    from jevserve.serving.models import limited

    prepared = limited(prepare(model.source, cache=given["cache"], protocol=model.protocol), model)
    profile = find(prepared.protocol).engine_profile(prepared)
    environment.apply(kv_cache_gib(prepared, profile, model), model.resources.num_cpus or 1)
    return asyncio.run(ask_twice(model, prepared))


async def ask_twice(model: ModelSettings, prepared: Prepared) -> dict[str, Any]:
    """``again``: the very decision asked again; ``other``: other questions on the same state.

    The other questions are asked twice: a hybrid model keeps the shared prefix's state only once
    it has seen that two rows share it.
    """
    from jevserve.engine.replica import EngineReplica

    adapter = find(prepared.protocol)
    replica = EngineReplica(model, prepared, adapter.engine_profile(prepared), "doctor")
    await replica.start()
    try:
        quantum = replica.report().reuse_quantum
        tokenizer = FileTokenizer(prepared.path)
        words = fitting_words(adapter, tokenizer, prepared, quantum)
        plans = [plan_of(adapter, tokenizer, prepared, words, question) for question in (0, 1, 2)]
        salt = uuid.uuid4().hex

        async def ask(plan: Plan) -> DecisionResult:
            return await replica.execute(
                PlannedDecision(
                    uuid.uuid4().hex, prepared.revision, plan, salt=salt, deadline_ms=DEADLINE_MS
                )
            )

        first = await ask(plans[0])
        again = await ask(plans[0])
        await ask(plans[1])
        other = await ask(plans[2])
    finally:
        replica.stop()
    tokens = sum(plans[0].row_length(i) for i in range(len(plans[0].rows)))
    return {
        "quantum": quantum,
        "tokens": tokens,
        "shared": shared_tokens([plans[0], plans[1]]),
        "first_ms": first.engine_ms,
        "again_ms": again.engine_ms,
        "again": sum(r.cached_tokens for r in again.rows),
        "other": sum(r.cached_tokens for r in other.rows),
    }


def fitting_words(adapter: Adapter, tokenizer: Tokenizer, prepared: Prepared, quantum: int) -> int:
    """Words of a state whose shared prefix is over two blocks, or of the longest that fits."""
    limit = adapter.limits(prepared).row_tokens
    words = 8
    while words < MAX_WORDS:
        plans = [plan_of(adapter, tokenizer, prepared, words * 2, q) for q in (0, 1, 2)]
        if any(p.row_length(i) > limit for p in plans for i in range(len(p.rows))):
            break
        words *= 2
        if shared_tokens(plans) > 2 * quantum:
            break
    return words
