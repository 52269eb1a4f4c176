"""A replica's book-keeping, on an engine that a test drives; real ones are in ``test_engines``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.adapters.base import EngineProfile, Prepared
from jevserve.decisions.plan import ROOT, Plan, PlanBuilder, PlannedDecision, Readout, ReadoutKind
from jevserve.engine.replica import EngineReplica, row_costs
from jevserve.settings import ModelSettings

READOUT = Readout(ReadoutKind.EMBED)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    build = PlanBuilder()
    nodes = [ROOT]
    for i in range(draw(st.integers(1, 12))):
        length = draw(st.integers(1, 20))
        nodes.append(build.segment([i, *range(length - 1)], draw(st.sampled_from(nodes))))
    for node in nodes[1:]:
        build.row(node, READOUT)
    return build.build()


@given(plans())
def test_rows_cost_what_they_add_and_together_the_plan(plan: Plan) -> None:
    costs = row_costs(plan)

    assert sum(costs) == plan.input_tokens
    assert all(0 <= cost <= plan.row_length(i) for i, cost in enumerate(costs))


def state_and_questions(state: int, questions: int, each: int) -> Plan:
    build = PlanBuilder()
    trunk = build.segment(list(range(state)))
    for i in range(questions):
        build.row(build.segment([1_000 + i] * each, trunk), READOUT)
    return build.build()


class DrivenEngine:
    """Answers no row until it is aborted, and then takes its time."""

    errored = False

    def __init__(self) -> None:
        self.waiting = 0
        self.arrived = asyncio.Event()
        self.aborting = asyncio.Event()

    async def encode(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.waiting += 1
        self.arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.aborting.set()
            await asyncio.sleep(0.01)
        yield None

    async def abort(self, ids: list[str]) -> None:
        pass


@pytest.mark.engine
async def test_backlog_counts_a_shared_state_once_and_empties_however_often_it_is_cancelled() -> (
    None
):
    """Given a decision that is cancelled again while its rows are being taken out of the engine,
    then nothing of it stays in the backlog that routers count with."""
    pytest.importorskip("vllm")
    prepared = Prepared(Path("/nowhere"), "m", "r", {})
    replica = EngineReplica(ModelSettings(name="m"), prepared, EngineProfile(task="embed"), "0")
    engine = DrivenEngine()
    replica._engine, replica._quantum = engine, 16
    decision = PlannedDecision("d", "r", state_and_questions(500, 24, 10), deadline_ms=1_000)

    task = asyncio.create_task(replica._run(decision))
    async with asyncio.timeout(30):
        await engine.arrived.wait()
        report = replica.report()
        assert (report.backlog_rows, report.backlog_tokens) == (24, 500 + 24 * 10)
        task.cancel()
        await engine.aborting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    report = replica.report()
    assert (report.backlog_rows, report.backlog_tokens) == (0, 0)
