"""The System One dialect: a ``DecisionResponse`` to the JSON body of a 200."""

from __future__ import annotations

from typing import Any

from jevserve.decisions.request import (
    Answer,
    ChoiceAnswer,
    DecisionRequest,
    DecisionResponse,
    NoulAnswer,
)
from jevserve.errors import EngineFailed


def render(request: DecisionRequest, response: DecisionResponse) -> dict[str, Any]:
    """The body. What is not part of the official schema is under ``x_jevserve`` alone.

    Raises:
        EngineFailed: the answers are not one per question, in the request's order.
    """
    asked = [id for id, _ in request.questions]
    if [id for id, _ in response.answers] != asked:
        raise EngineFailed(f"{len(response.answers)} answers for {len(asked)} questions")
    timings = response.timings
    return {
        "model": response.model,
        "answers": {id: _answer(a) for id, a in response.answers},
        "usage": {
            "input_tokens": response.usage.input_tokens,
            "output_tokens": response.usage.output_tokens,
        },
        "x_jevserve": {
            "cached_tokens": timings.cached_tokens,
            "computed_tokens": timings.computed_tokens,
            "rows": timings.rows,
            "plan_ms": round(timings.plan_ms, 3),
            "engine_ms": round(timings.engine_ms, 3),
            "total_ms": round(timings.total_ms, 3),
            "replica": response.replica,
        },
    }


def _answer(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, NoulAnswer):
        return {"type": "noul", "noul": answer.noul}
    if isinstance(answer, ChoiceAnswer):
        return {
            "type": "choice",
            "choice": answer.choice,
            "confidence": answer.confidence,
            "probabilities": answer.probabilities,
        }
    return {
        "type": "score",
        "score": answer.score,
        "confidence": answer.confidence,
        "legend": {str(i): level for i, level in enumerate(answer.legend)},
        "probabilities": {str(i): p for i, p in enumerate(answer.probabilities)},
    }
