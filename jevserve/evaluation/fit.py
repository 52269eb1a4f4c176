"""Fit the scale and bias of every question form, and report on data they were not fitted on.

    python -m jevserve.evaluation.fit --out minilm_calibration.json --results results.json

Fitted on the even half of the generated decisions and of the rated texts; every figure in the
results is of the odd half. Each set weighs the same, however many items it has.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jevserve.adapters.minilm import candidates
from jevserve.adapters.registry import find
from jevserve.checkpoints import FileTokenizer, prepare
from jevserve.checkpoints.embedded import JEV_EMBED
from jevserve.decisions.combine import Vector, sigmoid_pair, softmax
from jevserve.evaluation.decide import Answered, Decider
from jevserve.evaluation.generated import SEED, Labelled, generate
from jevserve.evaluation.metrics import measure
from jevserve.evaluation.ratings import PACKAGE, SHA256, rated, read_ratings
from jevserve.evaluation.reference import ReferenceEmbedder

MAX_SCALE = 100.0


def form_of(answered: Answered) -> str:
    return candidates(answered.item.question)[0]


def set_weights(answers: Sequence[Answered]) -> Vector:
    """One weight per answer: every set sums to the same, all of them to 1."""
    names, index, counts = np.unique(
        [a.item.set for a in answers], return_inverse=True, return_counts=True
    )
    return np.asarray(1.0 / (len(names) * counts[index]), dtype=np.float64)


def truths(answers: Sequence[Answered]) -> list[int]:
    """Position of the right candidate among the model's candidates."""
    return [a.order.index(a.item.truth) for a in answers]


def fit_softmax(cosines: Sequence[Vector], truth: Sequence[int], weights: Vector) -> float:
    """The scale of least weighted negative log-likelihood, by golden section on [0, 100].

    The loss is convex in the scale; a scale of 0 says that cosines tell nothing.
    """

    def loss(scale: float) -> float:
        logs = [np.log(softmax(scale * c)[y] + 1e-300) for c, y in zip(cosines, truth, strict=True)]
        return float(-(weights @ np.array(logs)))

    low, high, ratio = 0.0, MAX_SCALE, (5**0.5 - 1) / 2
    while high - low > 1e-3:
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if loss(a) < loss(b) else (a, high)
    return (low + high) / 2


def fit_logistic(
    x: Vector, true: Vector, weights: Vector, *, with_bias: bool = True
) -> tuple[float, float]:
    """(scale, bias) of weighted logistic regression, by Newton steps; the scale is kept in
    [0, 100], because less alike can never mean more probable."""
    design = np.stack([x, np.ones_like(x) if with_bias else np.zeros_like(x)], axis=1)
    beta = np.zeros(2)
    ridge = 1e-6 * np.eye(2)
    for _ in range(100):
        p = np.array([sigmoid_pair(z)[0] for z in design @ beta])
        gradient = design.T @ (weights * (true - p)) - ridge @ beta
        hessian = design.T @ (design * (weights * p * (1 - p))[:, None]) + ridge
        step = np.linalg.solve(hessian, gradient)
        beta = beta + step * min(1.0, 10.0 / (np.abs(step).max() + 1e-12))
        if np.abs(step).max() < 1e-9:
            break
    if 0.0 <= beta[0] <= MAX_SCALE:
        return float(beta[0]), float(beta[1])
    scale = float(np.clip(beta[0], 0.0, MAX_SCALE))
    rate = float(np.clip(weights @ true / weights.sum(), 1e-3, 1 - 1e-3))
    return scale, float(np.log(rate / (1 - rate)) - scale * (weights @ x) / weights.sum())


def fit_form(form: str, answers: Sequence[Answered]) -> dict[str, float]:
    weights, truth = set_weights(answers), truths(answers)
    if form in ("noul.criterion", "noul.instructions"):
        x = np.array([float(a.cosines[0]) for a in answers])
        scale, bias = fit_logistic(x, np.array([float(y == 0) for y in truth]), weights)
        return {"scale": round(scale, 4), "bias": round(bias, 4)}
    # No bias where candidates compete: swapping them must swap their probabilities.
    scale = fit_softmax([a.cosines for a in answers], truth, weights)
    return {"scale": round(scale, 4), "bias": 0.0}


def calibrated(answered: Answered, fitted: Mapping[str, Mapping[str, float]]) -> Vector:
    """Probabilities in canonical order under the fitted scales."""
    form = fitted[form_of(answered)]
    if len(answered.cosines) == 1:
        p = sigmoid_pair(form["scale"] * float(answered.cosines[0]) + form["bias"])
    else:
        p = softmax(form["scale"] * answered.cosines)
    canonical = np.empty(len(p))
    canonical[list(answered.order)] = p
    return canonical


def by_key(answers: Sequence[Answered], key: str) -> dict[str, list[Answered]]:
    groups: dict[str, list[Answered]] = defaultdict(list)
    for a in answers:
        form = form_of(a)
        groups[{"form": form, "kind": form.split(".")[0], "set": a.item.set}[key]].append(a)
    return dict(sorted(groups.items()))


def report(
    answers: Sequence[Answered], fitted: Mapping[str, Mapping[str, float]]
) -> dict[str, object]:
    """Every figure by kind, by form and by set."""
    return {
        key: {
            name: dataclasses.asdict(
                measure(
                    [calibrated(a, fitted) for a in group],
                    [a.item.truth for a in group],
                    [a.label for a in group],
                )
            )
            for name, group in by_key(answers, key).items()
        }
        for key in ("kind", "form", "set")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="calibration file to write")
    parser.add_argument("--results", type=Path, required=True, help="held-out figures to write")
    parser.add_argument("--ratings", type=Path, help=f"source archive of {PACKAGE}")
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    prepared = prepare("jev-embed", cache=arguments.cache)
    decider = Decider(
        find("minilm"),
        FileTokenizer(prepared.path),
        prepared,
        ReferenceEmbedder(prepared.path),
    )
    ratings = read_ratings(arguments.ratings)
    halves: list[list[Labelled]] = [[*generate(h), *rated(h, ratings)] for h in (0, 1)]
    even, odd = (decider.answer(half) for half in halves)
    fitted = {form: fit_form(form, group) for form, group in by_key(even, "form").items()}
    calibration = {
        "version": 1,
        "weights": JEV_EMBED.files["model.safetensors"][1],
        "provenance": {
            "command": "python -m jevserve.evaluation.fit",
            "generated": f"jevserve.evaluation.generated, seed {SEED}, half 0",
            "rated": f"{PACKAGE} (MIT), source archive sha256 {SHA256}, even texts",
            "items": len(even),
            "weighting": "every set the same",
        },
        "forms": fitted,
    }
    arguments.out.write_text(json.dumps(calibration, indent=1) + "\n")
    results = {"items": len(odd), "forms": fitted, **report(odd, fitted)}
    arguments.results.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
