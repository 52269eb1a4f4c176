"""Row values to probabilities: every rule against plain Python, and what no value may break."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.decisions.combine import probabilities, sigmoid_pair, softmax
from jevserve.decisions.plan import (
    ROOT,
    Combine,
    CombineRule,
    Plan,
    Readout,
    ReadoutKind,
    Row,
    RowResult,
    Segment,
)
from jevserve.errors import EngineFailed

EXACT = 1e-12

LOGIT = st.floats(-80, 80, allow_nan=False)
SCALE = st.floats(0.01, 30)


def reference_softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(v - top) for v in logits]
    total = math.fsum(weights)
    return [w / total for w in weights]


def reference_cosine(a: Sequence[float], b: Sequence[float]) -> float:
    norms = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / norms


def in_canonical_order(p: Sequence[float], order: Sequence[int]) -> list[float]:
    """``order[i]`` is the candidate that the model's i-th value belongs to."""
    return [p[order.index(candidate)] for candidate in range(len(p))]


def plan_of(*lengths: int) -> Plan:
    """Rows of the given token counts that share nothing."""
    return Plan(
        segments=tuple(Segment(ROOT, tuple(range(1, n + 1))) for n in lengths),
        rows=tuple(Row(i, Readout(ReadoutKind.EMBED)) for i in range(len(lengths))),
    )


def results_of(*rows: Sequence[float]) -> tuple[RowResult, ...]:
    return tuple(RowResult(tuple(map(float, values))) for values in rows)


def close(p: np.ndarray, expected: Sequence[float]) -> bool:
    return p.shape == (len(expected),) and bool(np.allclose(p, expected, rtol=1e-9, atol=EXACT))


@st.composite
def shaped(draw: st.DrawFn) -> tuple[int, list[int], float, list[float]]:
    """(n, order, scale, bias) of a question; the bias may be absent."""
    n = draw(st.integers(2, 12))
    order = draw(st.permutations(range(n)))
    bias = draw(st.just([]) | st.lists(st.floats(-5, 5), min_size=n, max_size=n))
    return n, list(order), draw(SCALE), bias


def test_certain_reads_no_row() -> None:
    p = probabilities(Combine(0, CombineRule.CERTAIN), Plan(), (), 1)

    assert p.tolist() == [1.0]


@given(shaped(), st.data())
def test_softmax_row_is_the_softmax_of_one_row(shape, data: st.DataObject) -> None:
    n, order, scale, bias = shape
    values = data.draw(st.lists(LOGIT, min_size=n, max_size=n))
    combine = Combine(0, CombineRule.SOFTMAX_ROW, (0,), tuple(order), scale, tuple(bias))

    p = probabilities(combine, plan_of(1), results_of(values), n)

    logits = [scale * v + b for v, b in zip(values, bias or [0.0] * n, strict=True)]
    assert close(p, in_canonical_order(reference_softmax(logits), order))


@given(shaped(), st.data())
def test_softmax_rows_is_the_softmax_across_rows(shape, data: st.DataObject) -> None:
    n, order, scale, bias = shape
    values = data.draw(st.lists(LOGIT, min_size=n, max_size=n))
    rows = tuple(range(n))
    combine = Combine(0, CombineRule.SOFTMAX_ROWS, rows, tuple(order), scale, tuple(bias))

    p = probabilities(combine, plan_of(*[1] * n), results_of(*([v] for v in values)), n)

    logits = [scale * v + b for v, b in zip(values, bias or [0.0] * n, strict=True)]
    assert close(p, in_canonical_order(reference_softmax(logits), order))


@given(shaped(), st.data())
def test_positive_mass_normalises_each_rows_yes(shape, data: st.DataObject) -> None:
    n, order, _, _ = shape
    scale = data.draw(st.floats(0.01, 3))
    pairs = data.draw(st.lists(st.tuples(LOGIT, LOGIT), min_size=n, max_size=n))
    bias = data.draw(st.just(()) | st.tuples(st.floats(-5, 5), st.floats(-5, 5)))
    combine = Combine(0, CombineRule.POSITIVE_MASS, tuple(range(n)), tuple(order), scale, bias)

    p = probabilities(combine, plan_of(*[1] * n), results_of(*pairs), n)

    no_bias, yes_bias = bias or (0.0, 0.0)
    masses = [
        reference_softmax([scale * no + no_bias, scale * yes + yes_bias])[1] for no, yes in pairs
    ]
    total = math.fsum(masses)
    assert close(p, in_canonical_order([m / total for m in masses], order))


def test_positive_mass_tells_rows_apart_that_all_say_no_beyond_the_range_of_a_float() -> None:
    combine = Combine(0, CombineRule.POSITIVE_MASS, (0, 1))

    p = probabilities(combine, plan_of(1, 1), results_of([0, -2000], [0, -2001]), 2)

    assert close(p, reference_softmax([1.0, 0.0]))


@given(LOGIT, SCALE, st.floats(-5, 5), st.permutations([0, 1]))
def test_sigmoid_gives_the_first_model_candidate_the_sigmoid(value, scale, bias, order) -> None:
    combine = Combine(0, CombineRule.SIGMOID, (0,), tuple(order), scale, (bias,))

    p = probabilities(combine, plan_of(1), results_of([value]), 2)

    first = 1 / (1 + math.exp(-min(max(scale * value + bias, -700.0), 700.0)))
    assert close(p, in_canonical_order([first, 1 - first], order))


@given(shaped(), st.integers(0, 5), st.integers(0, 5), st.data())
def test_joint_reads_the_questions_own_values(shape, before, after, data: st.DataObject) -> None:
    n, order, scale, bias = shape
    size = before + n + after
    values = data.draw(st.lists(LOGIT, min_size=size, max_size=size))
    combine = Combine(0, CombineRule.JOINT, (0,), tuple(order), scale, tuple(bias), offset=before)

    p = probabilities(combine, plan_of(1), results_of(values), n)

    own = values[before : before + n]
    logits = [scale * v + b for v, b in zip(own, bias or [0.0] * n, strict=True)]
    assert close(p, in_canonical_order(reference_softmax(logits), order))


#: Vectors of three numbers that are not all small, so that they have a direction.
VECTOR = st.lists(st.floats(-4, 4), min_size=3, max_size=3).filter(lambda v: math.hypot(*v) > 0.1)


@given(shaped(), st.lists(st.tuples(VECTOR, st.integers(1, 50)), min_size=1, max_size=3), st.data())
def test_cosine_compares_with_the_token_weighted_direction_of_the_state(
    shape, state, data: st.DataObject
) -> None:
    n, order, scale, bias = shape
    vectors = data.draw(st.lists(VECTOR, min_size=n, max_size=n))
    units = [([x / math.hypot(*v) for x in v], tokens) for v, tokens in state]
    direction = [math.fsum(tokens * u[axis] for u, tokens in units) for axis in range(3)]
    if math.hypot(*direction) < 0.1:
        return  # the state's parts point away from each other: no direction to compare with
    plan = plan_of(*[1] * n, *(tokens for _, tokens in state))
    combine = Combine(
        0,
        CombineRule.COSINE,
        tuple(range(n)),
        tuple(order),
        scale,
        tuple(bias),
        reference=tuple(range(n, n + len(state))),
    )

    p = probabilities(combine, plan, results_of(*vectors, *(v for v, _ in state)), n)

    logits = [
        scale * reference_cosine(v, direction) + b
        for v, b in zip(vectors, bias or [0.0] * n, strict=True)
    ]
    assert close(p, in_canonical_order(reference_softmax(logits), order))


def test_cosine_of_a_single_candidate_row_is_a_sigmoid() -> None:
    combine = Combine(0, CombineRule.COSINE, (0,), (0, 1), 3.0, (-1.0,), reference=(1,))

    p = probabilities(combine, plan_of(1, 1), results_of([2, 0], [5, 5]), 2)

    yes = 1 / (1 + math.exp(-(3 * math.cos(math.pi / 4) - 1)))
    assert close(p, [yes, 1 - yes])


@given(st.lists(LOGIT, min_size=1, max_size=255))
def test_probabilities_are_between_zero_and_one_and_sum_to_one(values: list[float]) -> None:
    combine = Combine(0, CombineRule.SOFTMAX_ROW, (0,))

    p = probabilities(combine, plan_of(1), results_of(values), len(values))

    assert ((p >= 0) & (p <= 1)).all()
    assert abs(math.fsum(p) - 1) < EXACT


@given(st.lists(LOGIT, min_size=2, max_size=20), st.floats(-1e4, 1e4))
def test_adding_a_constant_to_every_logit_changes_nothing(values, constant) -> None:
    shifted = softmax(np.array(values) + constant)

    assert np.allclose(shifted, softmax(np.array(values)), atol=1e-9)


@given(st.lists(LOGIT, min_size=2, max_size=20), st.data())
def test_permuting_model_candidates_with_their_order_changes_nothing(
    values: list[float], data: st.DataObject
) -> None:
    n = len(values)
    order = data.draw(st.permutations(range(n)))
    permuted = Combine(0, CombineRule.SOFTMAX_ROW, (0,), tuple(order))
    plain = Combine(0, CombineRule.SOFTMAX_ROW, (0,))

    p = probabilities(permuted, plan_of(1), results_of([values[c] for c in order]), n)

    assert close(p, probabilities(plain, plan_of(1), results_of(values), n).tolist())


@pytest.mark.parametrize("logit", [1e300, -1e300, 3.4e38, 800.0, -800.0, 0.0])
def test_a_sigmoid_of_any_size_is_exact_at_both_ends(logit: float) -> None:
    p = sigmoid_pair(logit)

    assert math.fsum(p) == 1.0
    assert p[0] == (0.5 if logit == 0 else float(logit > 0))


#: One well-formed case of every rule that reads rows: (combine, row values, candidates).
CASES = {
    CombineRule.SOFTMAX_ROW: (Combine(0, CombineRule.SOFTMAX_ROW, (0,)), [[1, 2, 3]], 3),
    CombineRule.SOFTMAX_ROWS: (Combine(0, CombineRule.SOFTMAX_ROWS, (0, 1)), [[1], [2]], 2),
    CombineRule.POSITIVE_MASS: (
        Combine(0, CombineRule.POSITIVE_MASS, (0, 1)),
        [[1, 2], [2, 1]],
        2,
    ),
    CombineRule.SIGMOID: (Combine(0, CombineRule.SIGMOID, (0,), bias=(0.5,)), [[1]], 2),
    CombineRule.JOINT: (
        Combine(0, CombineRule.JOINT, (0,), (0, 1), offset=1, bias=(0.1, 0.2)),
        [[1, 2, 3]],
        2,
    ),
    CombineRule.COSINE: (
        Combine(0, CombineRule.COSINE, (0, 1), reference=(2,)),
        [[1, 0], [0, 1], [1, 1]],
        2,
    ),
}


def test_every_rule_has_a_case() -> None:
    assert {*CASES, CombineRule.CERTAIN} == set(CombineRule)


@pytest.mark.parametrize("rule", CASES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_fails_the_decision_wherever_it_stands(
    rule: CombineRule, bad: float
) -> None:
    combine, rows, n = CASES[rule]
    plan = plan_of(*[1] * len(rows))
    assert math.fsum(probabilities(combine, plan, results_of(*rows), n)) == pytest.approx(1)
    for row in range(len(rows)):
        for position in range(len(rows[row])):
            broken = [[float(v) for v in values] for values in rows]
            broken[row][position] = bad
            with pytest.raises(EngineFailed):
                probabilities(combine, plan, results_of(*broken), n)


@pytest.mark.parametrize("rule", CASES)
@pytest.mark.parametrize("change", ["one fewer", "one more", "none"])
def test_a_row_with_another_number_of_values_fails_the_decision(
    rule: CombineRule, change: str
) -> None:
    combine, rows, n = CASES[rule]
    for row in range(len(rows)):
        broken = [list(values) for values in rows]
        broken[row] = {"one fewer": broken[row][:-1], "one more": [*broken[row], 1], "none": []}[
            change
        ]
        if rule is CombineRule.JOINT and change == "one more":
            continue  # other questions' values follow this one's
        with pytest.raises(EngineFailed, match="values"):
            probabilities(combine, plan_of(*[1] * len(rows)), results_of(*broken), n)


def test_a_vector_without_a_direction_fails_the_decision() -> None:
    combine, rows, n = CASES[CombineRule.COSINE]
    for zero in range(len(rows)):
        broken = [[0, 0] if i == zero else values for i, values in enumerate(rows)]
        with pytest.raises(EngineFailed, match="direction"):
            probabilities(combine, plan_of(1, 1, 1), results_of(*broken), n)
