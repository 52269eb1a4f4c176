"""Row values to probabilities: the calibration rules every adapter chooses from.

All arithmetic is float64. A non-finite value anywhere fails the decision: an answer that looks
like one but is not would be worse than an error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jevserve.decisions.plan import Combine, CombineRule, Plan, RowResult
from jevserve.errors import EngineFailed

Vector = NDArray[np.float64]


def softmax(logits: Vector) -> Vector:
    """Softmax over the last axis, shifted by the maximum so that it cannot overflow."""
    e = np.exp(logits - logits.max())
    return np.asarray(e / e.sum(), dtype=np.float64)


def sigmoid_pair(logit: float) -> Vector:
    """[p, 1 - p] for the logit of p, exact at both ends."""
    return softmax(np.array([logit, 0.0]))


def probabilities(combine: Combine, plan: Plan, results: tuple[RowResult, ...], n: int) -> Vector:
    """Probabilities of a question's ``n`` candidates in canonical order.

    Rules (v = values of a row, s = scale, b = bias, one entry per model candidate):

    - CERTAIN: n = 1 and p = 1; no row is read.
    - SOFTMAX_ROW: softmax(s·v + b) over the one row's n values.
    - SOFTMAX_ROWS: softmax(s·v₀ + b) over n rows' scalars.
    - POSITIVE_MASS: every row has logits (no, yes); p ∝ softmax(s·(no, yes) + b)[yes].
    - SIGMOID: the one row's scalar is the logit of the first model candidate: σ(s·v₀ + b).
    - JOINT: SOFTMAX_ROW over the n values that start at ``offset``.
    - COSINE: cᵢ = cosine of candidate vector i with the token-weighted mean of the reference
      rows' unit vectors; softmax(s·c + b), or σ(s·c₀ + b) where there is one candidate row.

    Raises:
        EngineFailed: wrong number of values, or a value that is not finite.
    """
    if combine.rule is CombineRule.CERTAIN:
        return np.ones(1)
    values = [np.asarray(results[r].values, dtype=np.float64) for r in combine.rows]
    if not all(np.isfinite(v).all() for v in values):
        raise EngineFailed("the engine returned a value that is not a finite number")
    check_counts(combine, results, values, n)
    p = softmax_or_mass(combine, plan, results, values)
    if p.shape != (n,):
        raise EngineFailed(f"the engine returned {p.size} values for {n} candidates")
    canonical = np.empty(n)
    canonical[list(combine.order) or range(n)] = p
    return np.asarray(canonical / canonical.sum(), dtype=np.float64)


def check_counts(
    combine: Combine, results: tuple[RowResult, ...], values: list[Vector], n: int
) -> None:
    """Refuse rows whose number of values is not what the rule reads."""
    counts = {v.size for v in values}
    match combine.rule:
        case CombineRule.SOFTMAX_ROW:
            fits = counts == {n}
        case CombineRule.SOFTMAX_ROWS | CombineRule.SIGMOID:
            fits = counts == {1}
        case CombineRule.POSITIVE_MASS:
            fits = counts == {2}
        case CombineRule.JOINT:
            fits = min(counts) >= combine.offset + len(combine.order)
        case _:
            counts |= {len(results[r].values) for r in combine.reference}
            fits = len(counts) == 1
    if not fits:
        found = ", ".join(map(str, sorted(counts)))
        raise EngineFailed(f"the engine returned rows of {found} values for {n} candidates")


def softmax_or_mass(
    combine: Combine, plan: Plan, results: tuple[RowResult, ...], values: list[Vector]
) -> Vector:
    """Probabilities in the model's candidate order."""
    scale, bias = combine.scale, np.asarray(combine.bias or 0.0)
    match combine.rule:
        case CombineRule.SOFTMAX_ROW:
            return softmax(scale * values[0] + bias)
        case CombineRule.SOFTMAX_ROWS:
            return softmax(scale * np.concatenate(values) + bias)
        case CombineRule.POSITIVE_MASS:
            # Normalised as logarithms: the masses of rows that all say no may underflow.
            logits = [scale * v + bias for v in values]
            return softmax(np.array([-np.logaddexp(0.0, no - yes) for no, yes in logits]))
        case CombineRule.SIGMOID:
            return sigmoid_pair(float((scale * values[0] + bias).item()))
        case CombineRule.JOINT:
            n = len(combine.order)
            return softmax(scale * values[0][combine.offset : combine.offset + n] + bias)
        case CombineRule.COSINE:
            c = scale * cosines(combine, plan, results, values) + bias
            return sigmoid_pair(float(c.item())) if len(values) == 1 else softmax(c)
    raise EngineFailed(f"rule {combine.rule} reads no rows")


def cosines(
    combine: Combine, plan: Plan, results: tuple[RowResult, ...], values: list[Vector]
) -> Vector:
    """Cosine of each candidate vector with the direction of the reference rows."""
    direction = sum(
        plan.row_length(r) * unit(np.asarray(results[r].values, dtype=np.float64))
        for r in combine.reference
    )
    reference = unit(np.asarray(direction))
    return np.array([float(unit(v) @ reference) for v in values])


def unit(vector: Vector) -> Vector:
    norm = float(np.linalg.norm(vector))
    if not 0.0 < norm < np.inf:
        raise EngineFailed("the engine returned a vector without a direction")
    return vector / norm
