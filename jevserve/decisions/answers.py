"""Probabilities to answers: one function for every model, dialect and readout.

The confidence formulas are those of the System One reference metrics (system-one-adapter 0.2.1,
``confidence_metrics``): they depend only on the probabilities that are returned.
"""

from __future__ import annotations

import numpy as np

from jevserve.decisions.combine import Vector, probabilities
from jevserve.decisions.plan import Plan, RowResult
from jevserve.decisions.request import (
    Answer,
    Choice,
    ChoiceAnswer,
    DecisionRequest,
    NoulAnswer,
    Question,
    Score,
    ScoreAnswer,
    candidate_count,
)
from jevserve.errors import EngineFailed


def choice_confidence(p: Vector) -> float:
    """(p_max - 1/n) / (1 - 1/n): 0 for a uniform distribution, 1 for a certain or only option."""
    n = len(p)
    if n == 1:
        return 1.0
    return float(np.clip((p.max() - 1 / n) / (1 - 1 / n), 0.0, 1.0))


def score_confidence(p: Vector) -> float:
    """max(0, 1 - E|i - mode| / D), D = mean |i - (n-1)/2|; 1 for a single level."""
    n = len(p)
    if n == 1:
        return 1.0
    levels = np.arange(n)
    spread = float(p @ np.abs(levels - int(p.argmax())))
    uniform = float(np.abs(levels - (n - 1) / 2).mean())
    return max(0.0, 1.0 - spread / uniform)


def answer(question: Question, p: Vector) -> Answer:
    """The answer to ``question`` for probabilities in canonical candidate order.

    The choice is the argmax, ties going to the option the client named first; the score is the
    expectation of the level index.
    """
    if isinstance(question, Choice):
        names = [name for name, _ in question.options]
        return ChoiceAnswer(
            choice=names[int(p.argmax())],
            confidence=choice_confidence(p),
            probabilities=dict(zip(names, map(float, p), strict=True)),
        )
    if isinstance(question, Score):
        return ScoreAnswer(
            score=float(p @ np.arange(len(p))),
            confidence=score_confidence(p),
            legend=question.levels,
            probabilities=tuple(map(float, p)),
        )
    return NoulAnswer(noul=float(p[0]))


def assemble(
    request: DecisionRequest, plan: Plan, results: tuple[RowResult, ...]
) -> tuple[tuple[str, Answer], ...]:
    """One answer per question, in the request's order.

    Raises:
        EngineFailed: the results do not fit the plan or are not finite.
    """
    if len(results) != len(plan.rows):
        raise EngineFailed(f"the engine answered {len(results)} of {len(plan.rows)} rows")
    by_question = {c.question: c for c in plan.combines}
    return tuple(
        (id, answer(q, probabilities(by_question[i], plan, results, candidate_count(q))))
        for i, (id, q) in enumerate(request.questions)
    )
