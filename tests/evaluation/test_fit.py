"""Fits that find what data were made with."""

from __future__ import annotations

import numpy as np
import pytest

from jevserve.decisions.combine import softmax
from jevserve.evaluation.fit import fit_logistic, fit_softmax

RNG = np.random.default_rng(5)
N = 4_000
UNIFORM = np.full(N, 1 / N)


def test_softmax_scale_is_recovered() -> None:
    cosines = list(RNG.uniform(0, 0.6, (N, 4)))
    truth = [int(RNG.choice(4, p=softmax(20.0 * c))) for c in cosines]
    assert fit_softmax(cosines, truth, UNIFORM) == pytest.approx(20.0, rel=0.1)


def test_where_cosines_tell_nothing_probabilities_say_so() -> None:
    cosines = list(RNG.uniform(0, 0.6, (N, 4)))
    truth = [int(t) for t in RNG.integers(0, 4, N)]
    scale = fit_softmax(cosines, truth, UNIFORM)
    assert max(softmax(scale * c).max() for c in cosines) < 0.4


def test_logistic_scale_and_bias_are_recovered() -> None:
    x = RNG.uniform(0, 0.8, N)
    true = (RNG.random(N) < 1 / (1 + np.exp(-(8 * x - 3)))).astype(float)
    scale, bias = fit_logistic(x, true, UNIFORM)
    assert scale == pytest.approx(8, rel=0.15)
    assert bias == pytest.approx(-3, rel=0.15)


def test_the_scale_never_turns_evidence_around() -> None:
    x = RNG.uniform(0, 0.8, N)
    scale, bias = fit_logistic(x, (x < 0.4).astype(float), UNIFORM)
    assert scale == 0.0
    assert abs(bias) < 0.2


def test_a_separable_set_gives_a_bounded_scale() -> None:
    x = np.concatenate([np.full(50, 0.1), np.full(50, 0.9)])
    scale, bias = fit_logistic(x, (x > 0.5).astype(float), np.full(100, 0.01))
    assert scale <= 100
    assert np.isfinite(bias)
