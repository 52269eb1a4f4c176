"""Generated decisions: reproducible, valid, and honestly held out."""

from __future__ import annotations

from collections import Counter

import pytest

from jevserve.decisions.request import Choice, Noul, candidate_count
from jevserve.evaluation.generated import NEGATIONS, generate
from jevserve.evaluation.themes import FAMILIES, SCALES

HALVES = {half: generate(half) for half in (0, 1)}


def test_the_seed_decides_everything() -> None:
    assert generate(0) == HALVES[0]
    assert generate(0, seed=1) != HALVES[0]


@pytest.mark.parametrize("half", [0, 1])
def test_every_truth_is_a_candidate_and_no_side_is_favoured(half: int) -> None:
    items = HALVES[half]
    assert len(items) > 3_000
    assert all(0 <= i.truth < candidate_count(i.question) for i in items)
    nouls = [i.truth for i in items if isinstance(i.question, Noul)]
    assert 0.45 < sum(nouls) / len(nouls) < 0.55


def test_the_halves_share_no_state() -> None:
    assert not {i.state for i in HALVES[0]} & {i.state for i in HALVES[1]}


def test_the_halves_share_no_template() -> None:
    for theme in [t for themes in FAMILIES.values() for t in themes]:
        assert len(set(theme.sentences)) == 6
    for _, _, levels in SCALES.values():
        assert all(len(set(sentences)) == 4 for sentences in levels)
    assert not set(NEGATIONS[0]) & set(NEGATIONS[1])


def test_every_set_is_large_enough_to_report_and_in_both_halves() -> None:
    counts = [Counter(i.set for i in HALVES[half]) for half in (0, 1)]
    assert set(counts[0]) == set(counts[1])
    assert min(min(c.values()) for c in counts) >= 60


def test_options_have_different_names() -> None:
    for item in HALVES[0]:
        if isinstance(item.question, Choice):
            names = [name for name, _ in item.question.options]
            assert len(set(names)) == len(names)
