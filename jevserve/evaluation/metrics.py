"""How right and how honest probabilities are.

All functions take ``probabilities``, one vector per decision (of any length, each summing to 1),
and ``truth``, the index of the right candidate of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jevserve.decisions.combine import Vector

ECE_BINS = 10


def accuracy(probabilities: Sequence[Vector], truth: Sequence[int]) -> float:
    """Share of decisions whose most probable candidate is the right one."""
    return float(np.mean([p.argmax() == y for p, y in zip(probabilities, truth, strict=True)]))


def expected_calibration_error(probabilities: Sequence[Vector], truth: Sequence[int]) -> float:
    """Mean gap between top probability and accuracy over ten equal bins, weighted by bin size
    (Guo et al., 2017)."""
    top = np.array([p.max() for p in probabilities])
    right = np.array([p.argmax() == y for p, y in zip(probabilities, truth, strict=True)])
    bins = np.minimum((top * ECE_BINS).astype(int), ECE_BINS - 1)
    gaps = [
        abs(right[bins == b].mean() - top[bins == b].mean()) * np.mean(bins == b)
        for b in np.unique(bins)
    ]
    return float(np.sum(gaps))


def brier(probabilities: Sequence[Vector], truth: Sequence[int]) -> float:
    """Mean squared distance to the one-hot truth, summed over candidates (0 to 2)."""
    return float(
        np.mean(
            [
                ((p - np.eye(len(p))[y]) ** 2).sum()
                for p, y in zip(probabilities, truth, strict=True)
            ]
        )
    )


def negative_log_likelihood(probabilities: Sequence[Vector], truth: Sequence[int]) -> float:
    """Mean -ln p(right candidate), in nats; p is kept above 1e-12."""
    return float(
        np.mean([-np.log(max(p[y], 1e-12)) for p, y in zip(probabilities, truth, strict=True)])
    )


@dataclass(frozen=True)
class Measurement:
    """All figures of one set.

    Attributes:
        n: decisions.
        majority: share of the most frequent right answer, where all decisions have the same
            candidates in the same meaning; else the mean of 1 / candidates.
        mean_top: mean probability of the top candidate; next to ``accuracy`` it shows over- and
            underconfidence.
    """

    n: int
    accuracy: float
    majority: float
    mean_top: float
    ece: float
    brier: float
    nll: float


def measure(
    probabilities: Sequence[Vector], truth: Sequence[int], labels: Sequence[str]
) -> Measurement:
    """``labels`` is the right candidate's text of each decision, for the majority share.

    Raises:
        ValueError: no decisions.
    """
    if not probabilities:
        raise ValueError("nothing to measure")
    counts = np.unique(np.array(labels), return_counts=True)[1]
    guess = float(np.mean([1 / len(p) for p in probabilities]))
    return Measurement(
        n=len(truth),
        accuracy=accuracy(probabilities, truth),
        majority=max(guess, float(counts.max() / len(labels))),
        mean_top=float(np.mean([p.max() for p in probabilities])),
        ece=expected_calibration_error(probabilities, truth),
        brier=brier(probabilities, truth),
        nll=negative_log_likelihood(probabilities, truth),
    )
