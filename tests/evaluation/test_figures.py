"""Figures against references of their own, and what may look at which half."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jevserve.decisions.request import Choice, Score
from jevserve.evaluation.asking import Asked, Outcome, arrangement, with_shuffles
from jevserve.evaluation.figures import figures, fitted_temperature, held_out, tempered
from jevserve.evaluation.generated import Labelled

CHOICE = Choice((("a", None), ("b", None), ("c", None)))


def sharpened(count: int, power: float, seed: int) -> tuple[list[np.ndarray], list[int]]:
    """Honest probabilities raised to a power, and truths drawn from the honest ones."""
    rng = np.random.default_rng(seed)
    honest = rng.dirichlet((1, 1, 1), count)
    truth = [int(rng.choice(3, p=p)) for p in honest]
    return [p**power / (p**power).sum() for p in honest], truth


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 4.0])
def test_the_fitted_temperature_undoes_a_sharpening(power: float) -> None:
    vectors, truth = sharpened(4_000, power, 1)

    assert fitted_temperature(vectors, truth) == pytest.approx(power, rel=0.1)
    assert held_out(vectors, truth).ece_fitted < 0.03


@given(seed=st.integers(0, 10_000), other=st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_the_temperature_never_sees_the_half_that_it_is_judged_on(seed: int, other: int) -> None:
    vectors, truth = sharpened(40, 2.0, seed)
    changed = [y if i % 2 == 0 else other for i, y in enumerate(truth)]

    first, second = held_out(vectors, truth), held_out(vectors, changed)

    assert first is not None and second is not None
    assert first.temperature == second.temperature


def test_too_few_decisions_fit_no_temperature() -> None:
    vectors, truth = sharpened(39, 2.0, 1)

    assert held_out(vectors, truth) is None


@given(p=st.lists(st.floats(0.001, 1), min_size=2, max_size=6), temperature=st.floats(0.1, 10))
@settings(deadline=None)
def test_a_temperature_keeps_the_order_and_the_sum(p: list[float], temperature: float) -> None:
    vector = np.array(p) / sum(p)

    made = tempered(vector, temperature)

    assert made.sum() == pytest.approx(1)
    assert made[vector.argmax()] == made.max()
    reference = [q ** (1 / temperature) for q in vector]
    assert made == pytest.approx([r / sum(reference) for r in reference], rel=1e-6)


def outcome(number: int, *p: float, order: int = 0) -> Outcome:
    return Outcome("s", number, order, probabilities=p, client_ms=10 * (number + 1), tokens=10)


def test_figures_are_those_of_a_calculation_by_hand() -> None:
    items = [Labelled("s", "x", CHOICE, truth) for truth in (0, 1, 2)]
    outcomes = [
        outcome(2, 0.5, 0.3, 0.2),  # wrong
        outcome(0, 0.7, 0.2, 0.1),
        outcome(1, 0.1, 0.8, 0.1),
        outcome(0, 0.2, 0.7, 0.1, order=1),  # flipped
        outcome(1, 0.1, 0.8, 0.1, order=1),
    ]

    found = figures(items, outcomes, seed=1)

    m = found.measurement
    assert m is not None and found.steadiness is not None and found.speed is not None
    assert (found.kind, m.n) == ("choice", 3)
    assert m.accuracy == pytest.approx(2 / 3)
    brier = (0.09 + 0.04 + 0.01) + (0.01 + 0.04 + 0.01) + (0.25 + 0.09 + 0.64)
    assert m.brier == pytest.approx(brier / 3)
    assert m.nll == pytest.approx(-(math.log(0.7) + math.log(0.8) + math.log(0.2)) / 3)
    assert m.ece == pytest.approx((0.3 + 0.2 + 0.5) / 3)
    assert (found.steadiness.asked, found.steadiness.flipped) == (2, 0.5)
    assert found.steadiness.distance == pytest.approx(0.25)
    assert found.speed.p50_ms == 20
    assert found.interval is not None and 0 <= found.interval[0] <= 2 / 3 <= found.interval[1] <= 1


def test_scores_are_judged_by_distance_too() -> None:
    question = Score(("a", "b", "c"))
    items = [Labelled("s", "x", question, 2), Labelled("s", "x", question, 2)]

    found = figures(items, [outcome(0, 0.0, 0.5, 0.5), outcome(1, 1.0, 0.0, 0.0)], seed=1)

    assert found.ordinal is not None
    assert found.ordinal.mean_error == pytest.approx((0.5 + 2.0) / 2)
    assert found.ordinal.within_one == 0.5


def test_refusals_are_counted_and_never_dropped() -> None:
    items = [Labelled("s", "x", CHOICE, 0)] * 3
    refusals = [Outcome("s", n, 0, refusal="400: no") for n in (0, 1)]

    some = figures(items, [*refusals, outcome(2, 1.0, 0.0, 0.0)], seed=1)
    none = figures(items, refusals, seed=1)

    assert some.refused == none.refused == {"400: no": 2}
    assert some.measurement is not None and some.measurement.n == 1
    assert none.measurement is None


@given(seed=st.integers(), number=st.integers(0, 9), order=st.integers(0, 5))
def test_other_orders_are_orders_and_other(seed: int, number: int, order: int) -> None:
    asked = Asked(Labelled("s", "x", CHOICE, 0), number, order)

    places = arrangement(asked, seed)

    assert sorted(places) == [0, 1, 2]
    assert (places == [0, 1, 2]) == (order == 0)
    assert places == arrangement(asked, seed)


def test_only_choices_between_several_are_asked_in_other_orders() -> None:
    single = Choice((("a", None),))
    items = [Labelled("s", "x", q, 0) for q in (CHOICE, single, Score(("a", "b")))]

    asked = with_shuffles([Asked(item, n) for n, item in enumerate(items)], 2, seed=1)

    assert sorted((a.number, a.order) for a in asked) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]
