"""The engine replica: executes planned decisions on one vLLM engine."""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from typing import Any

from jevserve.adapters.base import EngineProfile, Prepared
from jevserve.decisions.plan import (
    DecisionResult,
    GroupRecord,
    Lane,
    Plan,
    PlanBuilder,
    PlannedDecision,
    Readout,
    ReadoutKind,
    RowResult,
)
from jevserve.engine.arguments import engine_arguments
from jevserve.engine.meter import Meter
from jevserve.errors import EngineFailed, Overloaded
from jevserve.settings import ModelSettings
from jevserve.transport.base import DecisionExecutor, ReplicaReport, ReplicaState

log = logging.getLogger(__name__)

#: A batch decision yields to interactive ones where the engine schedules by priority.
PRIORITY = {Lane.INTERACTIVE: 0, Lane.BATCH: 1}

#: The burst of the self-test: enough work to show the rate, little enough for a slow machine.
CALIBRATION_ROWS, CALIBRATION_TOKENS = 12, 64

#: What a client is told when its replica is leaving: another one takes the retry at once.
DRAIN_RETRY_MS = 200


class EngineReplica(DecisionExecutor):
    """One vLLM engine and the decisions in flight on it.

    Made by ``start``; ``execute`` may be called concurrently from the loop it was started on.
    """

    def __init__(
        self, model: ModelSettings, prepared: Prepared, profile: EngineProfile, name: str
    ) -> None:
        self._model, self._prepared, self._profile, self._name = model, prepared, profile, name
        self._engine: Any = None
        self._meter = Meter()
        self._state = ReplicaState.STARTING
        self._started_at = 0.0
        self._quantum = 0
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Load the model, answer one decision as a self-test, and be ready.

        Raises:
            EngineFailed: the engine does not start or its first answer is not finite.
        """
        # Imported here: the environment must be complete before vLLM is imported.
        from vllm.config import PoolerConfig
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = engine_arguments(self._prepared, self._profile, self._model)
        if "pooler_config" in arguments:
            arguments["pooler_config"] = PoolerConfig(**arguments["pooler_config"])
        began = time.monotonic()
        self._engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(**arguments),
            stat_loggers=[step_counter(self._meter)],
        )
        cache = self._engine.vllm_config.cache_config
        self._quantum = int(cache.block_size or 0) if cache.enable_prefix_caching else 0
        await self._self_test()
        self._state, self._started_at = ReplicaState.READY, time.time()
        log.info("%s: %s ready in %.1f s", self._name, self._model.name, time.monotonic() - began)

    async def execute(self, decision: PlannedDecision) -> DecisionResult:
        """Submit all rows as one burst and collect their values by position.

        Cancelling aborts the rows in the engine's queue.

        Raises:
            Overloaded: the replica is draining or not ready.
            EngineFailed: another revision was planned for, or the engine failed.
        """
        if self._state is not ReplicaState.READY:
            raise Overloaded(
                f"the replica is {self._state}", retry_after_ms=DRAIN_RETRY_MS, reason=self._state
            )
        if decision.revision != self._prepared.revision:
            raise EngineFailed("the decision was planned for another revision of the model")
        self._in_flight += 1
        self._idle.clear()
        try:
            return await self._run(decision)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _run(self, decision: PlannedDecision) -> DecisionResult:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        plan, began = decision.plan, time.monotonic()
        lengths = [plan.row_length(i) for i in range(len(plan.rows))]
        # What is cached once is computed once: counted whole in every row, a state with many
        # questions would look like a backlog that it is not.
        costs = row_costs(plan) if self._quantum else lengths
        self._meter.accepted(len(costs), sum(costs), began)
        unfinished = set(range(len(costs)))

        async def run(index: int) -> RowResult:
            output = await self._submit(decision, index)
            cached = max(0, int(getattr(output, "num_cached_tokens", 0) or 0))
            unfinished.discard(index)
            self._meter.row_done(costs[index], lengths[index] - cached, cached, time.monotonic())
            from jevserve.engine.requests import values

            return RowResult(
                values=values(plan.rows[index].readout, self._profile, output),
                cached_tokens=cached,
                computed_tokens=lengths[index] - cached,
            )

        tasks = [asyncio.ensure_future(run(i)) for i in range(len(lengths))]
        try:
            rows = await asyncio.gather(*tasks)
        except (EngineDeadError, EngineGenerateError) as error:
            log.error("%s: the engine failed: %r", self._name, error)
            if self._engine.errored:
                # The decision is not to blame, and another replica can answer it.
                raise Overloaded(
                    "the engine has died", retry_after_ms=DRAIN_RETRY_MS, reason="engine_died"
                ) from error
            raise EngineFailed("the engine failed on this decision") from error
        finally:
            await self._abandon(decision, tasks, unfinished, costs)
        return DecisionResult(
            id=decision.id,
            rows=tuple(rows),
            engine_ms=1e3 * (time.monotonic() - began),
            replica=self._name,
        )

    async def _submit(self, decision: PlannedDecision, index: int) -> Any:
        """Run one row; returns vLLM's finished output."""
        from vllm.inputs import tokens_input

        from jevserve.engine.requests import parameters

        plan = decision.plan
        record = GroupRecord(
            group=decision.id,
            rows=len(plan.rows),
            index=index,
            cuts=tuple(plan.cuts(index)),
            deadline_ms=decision.deadline_ms,
        )
        params = parameters(plan.rows[index].readout, self._profile, record)
        prompt = tokens_input(plan.tokens(index), cache_salt=decision.salt or None)
        call = self._engine.generate if self._profile.runner == "generate" else self._engine.encode
        outputs = call(prompt, params, row_id(decision, index), priority=PRIORITY[decision.lane])
        final = None
        # To its end: a generator left half-way costs the loop a task to close it.
        async for output in outputs:
            final = output
        if final is None or not final.finished:
            raise EngineFailed("the engine ended a row without an answer")
        return final

    async def _abandon(
        self,
        decision: PlannedDecision,
        tasks: list[asyncio.Future[RowResult]],
        unfinished: set[int],
        costs: list[int],
    ) -> None:
        """Take rows that will not be answered out of the engine and out of the backlog."""
        if not unfinished:
            return
        for task in tasks:
            task.cancel()
        # Before anything is awaited: a second cancellation must not leave them in the backlog.
        for index in unfinished:
            self._meter.row_dropped(costs[index], time.monotonic())
        await asyncio.gather(*tasks, return_exceptions=True)
        if not self._engine.errored:
            await self._engine.abort([row_id(decision, i) for i in unfinished])

    async def _self_test(self) -> None:
        """A burst through the very path of real decisions: proves answers, measures the rate."""
        kind = ReadoutKind.LABELS if self._profile.label_ids else ReadoutKind.EMBED
        readout = Readout(kind, labels=tuple(range(min(2, len(self._profile.label_ids)))))
        # Two tokens that the vocabulary has for certain.
        tokens = self._profile.label_ids[:2] or (0, 1)
        longest = self._engine.vllm_config.model_config.max_model_len - 1
        for repeat in range(2):
            # Each row begins with its number in binary and each burst has a salt of its own, so
            # that no cache shortens any.
            build = PlanBuilder()
            for i in range(CALIBRATION_ROWS):
                length = max(4, min(CALIBRATION_TOKENS, longest) - 2 * i - repeat)
                digits = ((i >> bit) % 2 for bit in range(length))
                build.row(build.segment([tokens[d % len(tokens)] for d in digits]), readout)
            result = await self._run(self._probe(build.build()))
            if not all(math.isfinite(v) for row in result.rows for v in row.values):
                raise EngineFailed(f"{self._model.name}: the engine's first answer is not finite")
            self._meter.calibrated(
                sum(r.computed_tokens for r in result.rows), result.engine_ms / 1e3
            )

    def _probe(self, plan: Plan) -> PlannedDecision:
        return PlannedDecision(
            id=f"self-test-{uuid.uuid4().hex}",
            revision=self._prepared.revision,
            plan=plan,
            salt=uuid.uuid4().hex,
        )

    def report(self) -> ReplicaReport:
        meter = self._meter
        return ReplicaReport(
            replica=self._name,
            model=self._model.name,
            revision=self._prepared.revision,
            state=self._state if self.healthy else ReplicaState.STARTING,
            reuse_quantum=self._quantum,
            tokens_per_second=meter.tokens_per_second,
            round_ms=meter.round_ms,
            backlog_tokens=meter.backlog_tokens,
            backlog_rows=meter.backlog_rows,
            steps=meter.steps,
            started_at=self._started_at,
            decisions=meter.decisions,
            rows=meter.rows,
            computed_tokens=meter.computed_tokens,
            cached_tokens=meter.cached_tokens,
        )

    async def drain(self) -> None:
        self._state = ReplicaState.DRAINING
        await self._idle.wait()

    @property
    def healthy(self) -> bool:
        """False once vLLM has declared its engine dead."""
        return self._engine is not None and not self._engine.errored

    def stop(self) -> None:
        """Shut vLLM down; the replica answers nothing afterwards."""
        if self._engine is not None:
            self._engine.shutdown()


def row_costs(plan: Plan) -> list[int]:
    """Tokens that each row adds to those before it: they sum to the plan's ``input_tokens``."""
    counted: set[int] = set()
    costs = []
    for row in plan.rows:
        new = [s for s in plan.path(row.segment) if s not in counted]
        counted.update(new)
        costs.append(sum(len(plan.segments[s].tokens) for s in new))
    return costs


def row_id(decision: PlannedDecision, index: int) -> str:
    return f"{decision.id}/{index}"


def step_counter(meter: Meter) -> Any:
    """A vLLM stat-logger class that counts engine rounds into ``meter``."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class StepCounter(StatLoggerBase):
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            pass

        def record(
            self,
            scheduler_stats: Any,
            iteration_stats: Any,
            mm_cache_stats: Any = None,
            engine_idx: int = 0,
        ) -> None:
            if scheduler_stats is not None:
                meter.step()

        def log_engine_initialized(self) -> None:
            pass

    return StepCounter
