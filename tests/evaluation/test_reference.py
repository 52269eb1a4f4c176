"""The reference embedder: the plain mean over tokens, whatever else is in the batch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertModel

from jevserve.decisions.plan import PlanBuilder, Readout, ReadoutKind
from jevserve.evaluation.reference import ReferenceEmbedder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = Path(__file__).parents[1] / "make_checkpoints.py"
    spec = importlib.util.spec_from_file_location("make_checkpoints", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Path = module.make("bert-embed", tmp_path_factory.mktemp("checkpoints"))
    return made


ROWS = [(2, 10, 11, 3), (2, 12, 3), (2, *range(20, 200), 3), (2, 3)]


def test_a_vector_is_the_mean_of_the_last_states(folder: Path) -> None:
    model = BertModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = model(input_ids=torch.tensor([ROWS[0]])).last_hidden_state[0]
    np.testing.assert_allclose(
        ReferenceEmbedder(folder).vector(ROWS[0]), states.mean(0).numpy(), rtol=1e-4, atol=1e-5
    )


def test_a_vector_does_not_depend_on_its_batch(folder: Path) -> None:
    together, alone = ReferenceEmbedder(folder), ReferenceEmbedder(folder)
    together.embed(ROWS)
    for row in ROWS:
        np.testing.assert_allclose(together.vector(row), alone.vector(row), rtol=1e-4, atol=1e-5)


def test_a_plan_is_answered_row_by_row(folder: Path) -> None:
    build = PlanBuilder()
    for row in ROWS:
        build.row(build.segment(row), Readout(ReadoutKind.EMBED))
    results = ReferenceEmbedder(folder).execute(build.build())
    assert [r.computed_tokens for r in results] == [len(row) for row in ROWS]
    assert {len(r.values) for r in results} == {128}


def test_other_readouts_are_refused(folder: Path) -> None:
    build = PlanBuilder()
    build.row(build.segment(ROWS[0]), Readout(ReadoutKind.LABELS, labels=(0, 1)))
    with pytest.raises(ValueError, match="vectors only"):
        ReferenceEmbedder(folder).execute(build.build())
