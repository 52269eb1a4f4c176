"""Planned decisions on real engines: values, cache, group records, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from jevserve.adapters.base import Prepared
from jevserve.decisions.plan import GroupRecord
from jevserve.decisions.request import Choice, DecisionRequest, Noul, Question, Score
from jevserve.engine import environment
from jevserve.errors import EngineFailed, Overloaded
from jevserve.transport.base import ReplicaState
from tests.engine.conftest import Edit, RunningEngine, running, unchanged

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

STATE = "The parcel came late, the box was open, and nobody answered the phone. " * 24

QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("team", Choice((("billing", "payments"), ("delivery", None), ("login", "accounts")))),
    ("angry", Noul("Is the writer angry?")),
    ("urgency", Score(("can wait", "this week", "today"), "How urgent is it?")),
)


def question(i: int) -> tuple[str, Question]:
    return f"q{i}", Choice((("yes", None), ("no", None)), f"Question {i}: is item {i} missing?")


def as_generate(prepared: Prepared) -> Prepared:
    """Read the same checkpoint through generation, as models with a final soft cap are."""
    settings = {**prepared.settings, "runner": "generate"}
    settings["label_ids"] = settings["label_ids"][:128]
    return replace(prepared, settings=settings)


#: Checkpoint, edit of the prepared settings, vLLM arguments.
ENGINES: dict[str, tuple[str, Edit, dict[str, Any]]] = {
    "dense": ("qwen3-dense", unchanged, {"block_size": 32}),
    "gated-delta-net": ("qwen3_5-hybrid", unchanged, {"block_size": 32}),
    "hybrid": ("granite-hybrid", unchanged, {"block_size": 32}),
    "generating": ("qwen3-dense", as_generate, {"block_size": 32}),
    "embedding": ("jev-embed", unchanged, {}),
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def engine(
    request: pytest.FixtureRequest,
    checkpoints: Path,
    model_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RunningEngine]:
    """The engine a test names; pytest groups tests so that each is started once."""
    name, edit, arguments = ENGINES[request.param]
    record = tmp_path_factory.mktemp(request.param) / "records"
    record.touch()
    async for running_engine in running(name, checkpoints, model_cache, record, edit, **arguments):
        yield running_engine


def on(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", names, indirect=True)


def reference_label_logits(engine: RunningEngine, tokens: list[int]) -> np.ndarray:
    """The label rows of the full logits, from transformers in fp32 on the same checkpoint."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(engine.prepared.path, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, -1]
    return np.asarray(logits[engine.prepared.settings["label_ids"]], dtype=np.float64)


def probabilities(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max())
    return e / e.sum()


@on("dense", "gated-delta-net", "hybrid", "generating")
async def test_label_logits_are_those_of_the_reference(engine: RunningEngine) -> None:
    asked = DecisionRequest(STATE[:400], QUESTIONS)
    plan = engine.plan(asked)
    result = await engine.run(asked)
    # Recurrent bodies run in bfloat16 on a CPU, and everything does on a GPU.
    exact = environment.on_cpu() and "hybrid" not in engine.prepared.path.name
    tolerance = 1e-4 if exact else 2e-2
    for row, got in enumerate(result.rows):
        want = reference_label_logits(engine, plan.tokens(row))[: len(got.values)]
        assert probabilities(np.array(got.values)) == pytest.approx(
            probabilities(want), abs=tolerance
        )


@on("dense", "gated-delta-net", "hybrid")
async def test_the_same_state_again_comes_from_the_cache(engine: RunningEngine) -> None:
    asked = DecisionRequest(STATE, (question(0),))
    cold = await engine.run(asked, salt="again")
    warm = await engine.run(asked, salt="again")
    assert cold.rows[0].cached_tokens == 0
    assert warm.rows[0].cached_tokens > len(engine.tokenizer.encode_text(STATE)) / 2
    assert warm.rows[0].values == pytest.approx(cold.rows[0].values, abs=1e-4)
    total = warm.rows[0].cached_tokens + warm.rows[0].computed_tokens
    assert total == engine.plan(asked).row_length(0)


@on("dense", "hybrid")
async def test_another_salt_shares_nothing(engine: RunningEngine) -> None:
    asked = DecisionRequest(STATE, (question(1),))
    await engine.run(asked, salt="tenant-a")
    other = await engine.run(asked, salt="tenant-b")
    assert other.rows[0].cached_tokens == 0


@on("dense", "hybrid")
async def test_many_questions_in_one_request_compute_far_less_than_alone(
    engine: RunningEngine,
) -> None:
    questions = tuple(question(i) for i in range(24))
    together = await engine.run(DecisionRequest(STATE, questions), salt="together")
    alone = 0
    for i, asked in enumerate(questions):
        one = await engine.run(DecisionRequest(STATE, (asked,)), salt=f"alone-{i}")
        alone += one.rows[0].computed_tokens
    computed = sum(r.computed_tokens for r in together.rows)
    # A hybrid recomputes everything behind the last whole block in each row; dense does not.
    assert computed < (0.25 if "dense" in engine.prepared.path.name else 0.6) * alone


@on("dense", "hybrid", "generating", "embedding")
async def test_every_row_carries_its_group_record(engine: RunningEngine) -> None:
    asked = DecisionRequest("A short state.", QUESTIONS)
    plan = engine.plan(asked)
    await engine.run(asked, id="records")
    added = [e["jev"] for e in engine.events("added") if e["jev"]["g"] == "records"]
    records = sorted((GroupRecord.from_wire(r) for r in added), key=lambda r: r.index)
    assert [r.index for r in records] == list(range(len(plan.rows)))
    for i, record in enumerate(records):
        assert record.rows == len(plan.rows)
        assert list(record.cuts) == plan.cuts(i)
        assert record.deadline_ms == 60_000


@on("embedding")
async def test_embeddings_are_those_of_the_reference(engine: RunningEngine) -> None:
    from jevserve.evaluation.reference import ReferenceEmbedder

    asked = DecisionRequest("My card was charged twice, please refund one payment.", QUESTIONS)
    plan = engine.plan(asked)
    result = await engine.run(asked)
    reference = ReferenceEmbedder(engine.prepared.path)
    expected = reference.execute(plan)
    for row, got in enumerate(result.rows):
        vector, want = np.array(got.values), np.array(expected[row].values)
        cosine = vector @ want / np.linalg.norm(vector) / np.linalg.norm(want)
        assert cosine == pytest.approx(1.0, abs=1e-5)


@on("dense")
async def test_cancelling_a_decision_empties_the_engines_queue(engine: RunningEngine) -> None:
    asked = DecisionRequest(STATE * 3, tuple(question(i) for i in range(40)))
    before = len(engine.events("finished"))
    tasks = [
        asyncio.create_task(engine.run(asked, id=f"leaving-{i}", salt=f"leaving-{i}"))
        for i in range(4)
    ]
    # The scheduler runs in another process; what it wrote down is all there is to await.
    while not any(  # noqa: ASYNC110
        e["jev"]["g"].startswith("leaving") for e in engine.events("added")
    ):
        await asyncio.sleep(0.002)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert engine.replica.report().backlog_rows == 0
    assert engine.replica.report().backlog_tokens == 0
    # The engine answers the next decision at once, and its scheduler was told of the aborted ones.
    await engine.run(DecisionRequest("Short.", QUESTIONS))
    aborted = [id for e in engine.events("finished")[before:] for id in e["ids"]]
    assert any("leaving" in id for id in aborted)
    assert not engine.replica._engine.output_processor.has_unfinished_requests()


@on("dense")
async def test_a_decision_planned_for_another_revision_is_refused(engine: RunningEngine) -> None:
    decision = engine.decision(engine.plan(DecisionRequest("Short.", QUESTIONS)))
    with pytest.raises(EngineFailed, match="another revision"):
        await engine.replica.execute(replace(decision, revision="other"))


@on("dense")
async def test_concurrent_answers_equal_lone_ones(engine: RunningEngine) -> None:
    requests = [DecisionRequest(f"State number {i}. {STATE[:200]}", QUESTIONS) for i in range(12)]
    lone = [await engine.answers(r, salt="lone") for r in requests]
    together = await asyncio.gather(*(engine.answers(r, salt="together") for r in requests))
    for a, b in zip(lone, together, strict=True):
        assert a["angry"].noul == pytest.approx(b["angry"].noul, abs=1e-4)
        assert a["team"].probabilities == pytest.approx(b["team"].probabilities, abs=1e-4)


@on("dense")
async def test_the_report_says_what_was_done(engine: RunningEngine) -> None:
    before = engine.replica.report()
    await engine.run(DecisionRequest("Report this.", QUESTIONS), salt="report")
    after = engine.replica.report()
    assert after.state is ReplicaState.READY
    assert after.reuse_quantum == 32
    assert (after.decisions, after.rows) == (before.decisions + 1, before.rows + 3)
    assert after.steps > before.steps
    assert after.tokens_per_second > 0


@on("generating")
async def test_a_draining_replica_answers_what_it_has_and_refuses_the_rest(
    engine: RunningEngine,
) -> None:
    # Last in the module for this engine: draining is for good.
    accepted = asyncio.create_task(engine.run(DecisionRequest(STATE, QUESTIONS), id="last"))
    await asyncio.sleep(0)
    await engine.replica.drain()
    assert accepted.done() and len(accepted.result().rows) == 3
    with pytest.raises(Overloaded) as refusal:
        await engine.run(DecisionRequest("Too late.", QUESTIONS))
    assert refusal.value.reason == "draining"
