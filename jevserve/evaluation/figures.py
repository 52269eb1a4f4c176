"""From outcomes to figures: how right, how honest, how steady and how fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jevserve.decisions.combine import Vector
from jevserve.decisions.request import Score
from jevserve.evaluation.asking import Outcome
from jevserve.evaluation.generated import Labelled
from jevserve.evaluation.metrics import (
    Measurement,
    expected_calibration_error,
    measure,
    negative_log_likelihood,
)

RESAMPLES = 1_000

#: Decisions from which a temperature is fitted; fewer fit anything.
MIN_FIT = 20

#: Sharper or flatter than this by a temperature is no calibration any more.
LOWEST_T, HIGHEST_T = 0.05, 20.0


@dataclass(frozen=True)
class HeldOut:
    """A temperature fitted on even items, judged on odd ones.

    Attributes:
        temperature: probabilities to the power of 1/T, normalised again; above 1 flattens.
        ece: of the odd items as they came, and with the temperature.
    """

    temperature: float
    ece: float
    ece_fitted: float


@dataclass(frozen=True)
class Ordinal:
    """Of scores: mean distance of the expectation from the true level, and the share of decisions
    whose most probable level is at most one away."""

    mean_error: float
    within_one: float


@dataclass(frozen=True)
class Steadiness:
    """Of choices asked again with their options in another order.

    Attributes:
        asked: how many were.
        flipped: share of those whose most probable option changed.
        distance: mean total variation distance to the first answer, 0 to 1.
    """

    asked: int
    flipped: float
    distance: float


@dataclass(frozen=True)
class Speed:
    """Milliseconds as the client saw them, and the service's own median; tokens from its cache."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    service_p50_ms: float
    cached_share: float


@dataclass(frozen=True)
class SetFigures:
    """All figures of one set.

    Attributes:
        kind: of its questions; ``mixed`` where they differ.
        interval: 95 % of the accuracy, by resampling.
        refused: refusals by what was said.
    """

    kind: str
    refused: dict[str, int]
    measurement: Measurement | None = None
    interval: tuple[float, float] | None = None
    held_out: HeldOut | None = None
    ordinal: Ordinal | None = None
    steadiness: Steadiness | None = None
    speed: Speed | None = None


def figures(items: Sequence[Labelled], outcomes: Sequence[Outcome], seed: int) -> SetFigures:
    """Figures of one set from its outcomes, in any order."""
    first = sorted((o for o in outcomes if not o.order), key=lambda o: o.number)
    kinds = {type(i.question).__name__.lower() for i in items}
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    refused = dict(Counter(o.refusal for o in first if o.probabilities is None))
    answered = [o for o in first if o.probabilities is not None]
    if not answered:
        return SetFigures(kind, refused)
    vectors = [np.asarray(o.probabilities) for o in answered]
    truth = [items[o.number].truth for o in answered]
    labels = [items[o.number].label for o in answered]
    return SetFigures(
        kind=kind,
        refused=refused,
        measurement=measure(vectors, truth, labels),
        interval=accuracy_interval(vectors, truth, seed),
        held_out=held_out(vectors, truth),
        ordinal=ordinal(vectors, truth) if isinstance(items[0].question, Score) else None,
        steadiness=steadiness(outcomes),
        speed=speed(answered),
    )


def accuracy_interval(
    vectors: Sequence[Vector], truth: Sequence[int], seed: int
) -> tuple[float, float]:
    """The middle 95 % of the accuracy over resampled decisions."""
    right = np.array([v.argmax() == y for v, y in zip(vectors, truth, strict=True)])
    rng = np.random.default_rng(seed)
    shares = right[rng.integers(0, len(right), (RESAMPLES, len(right)))].mean(axis=1)
    low, high = np.percentile(shares, (2.5, 97.5))
    return float(low), float(high)


def tempered(vector: Vector, temperature: float) -> Vector:
    """Probabilities at another temperature: softmax(ln p / T)."""
    logits = np.log(np.maximum(vector, 1e-12)) / temperature
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


def fitted_temperature(vectors: Sequence[Vector], truth: Sequence[int]) -> float:
    """The temperature with the least mean -ln p(truth) (Guo et al., 2017)."""

    def loss(log_t: float) -> float:
        return negative_log_likelihood([tempered(v, np.exp(log_t)) for v in vectors], truth)

    return float(np.exp(least(loss, np.log(LOWEST_T), np.log(HIGHEST_T))))


def least(loss: Callable[[float], float], low: float, high: float, steps: int = 40) -> float:
    """Where a function with one valley is least, by golden sections."""
    golden = (5**0.5 - 1) / 2
    a, b = high - golden * (high - low), low + golden * (high - low)
    loss_a, loss_b = loss(a), loss(b)
    for _ in range(steps):
        if loss_a < loss_b:
            high, b, loss_b = b, a, loss_a
            a = high - golden * (high - low)
            loss_a = loss(a)
        else:
            low, a, loss_a = a, b, loss_b
            b = low + golden * (high - low)
            loss_b = loss(b)
    return (low + high) / 2


def held_out(vectors: Sequence[Vector], truth: Sequence[int]) -> HeldOut | None:
    """Fitted on the even, reported on the odd; None for too few decisions."""
    if len(vectors) < 2 * MIN_FIT:
        return None
    temperature = fitted_temperature(vectors[::2], truth[::2])
    odd, odd_truth = vectors[1::2], truth[1::2]
    return HeldOut(
        temperature,
        expected_calibration_error(odd, odd_truth),
        expected_calibration_error([tempered(v, temperature) for v in odd], odd_truth),
    )


def ordinal(vectors: Sequence[Vector], truth: Sequence[int]) -> Ordinal:
    expected = [float(np.arange(len(v)) @ v) for v in vectors]
    errors = [abs(e - y) for e, y in zip(expected, truth, strict=True)]
    near = [abs(int(v.argmax()) - y) <= 1 for v, y in zip(vectors, truth, strict=True)]
    return Ordinal(float(np.mean(errors)), float(np.mean(near)))


def steadiness(outcomes: Sequence[Outcome]) -> Steadiness | None:
    first = {o.number: o for o in outcomes if not o.order and o.probabilities is not None}
    pairs = [
        (np.asarray(first[o.number].probabilities), np.asarray(o.probabilities))
        for o in outcomes
        if o.order and o.probabilities is not None and o.number in first
    ]
    if not pairs:
        return None
    return Steadiness(
        asked=len(pairs),
        flipped=float(np.mean([a.argmax() != b.argmax() for a, b in pairs])),
        distance=float(np.mean([np.abs(a - b).sum() / 2 for a, b in pairs])),
    )


def speed(answered: Sequence[Outcome]) -> Speed:
    p50, p95, p99 = np.percentile([o.client_ms for o in answered], (50, 95, 99))
    tokens = sum(o.tokens for o in answered)
    return Speed(
        float(p50),
        float(p95),
        float(p99),
        float(np.median([o.total_ms for o in answered])),
        sum(o.cached_tokens for o in answered) / tokens if tokens else 0.0,
    )
