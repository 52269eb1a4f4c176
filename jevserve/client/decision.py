"""What a service answered, checked and typed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ChoiceAnswer:
    """Which option.

    Attributes:
        choice: the most probable option.
        confidence: 0 for all options alike, 1 for certainty; computed from ``probabilities``.
        probabilities: of every option, in the order asked.
    """

    choice: str
    confidence: float
    probabilities: dict[str, float]


@dataclass(frozen=True)
class NoulAnswer:
    """Yes or no: ``noul`` is the probability of yes."""

    noul: float


@dataclass(frozen=True)
class ScoreAnswer:
    """How much.

    Attributes:
        score: expected level, a number from 0 to levels - 1.
        confidence: 0 to 1, computed from ``probabilities``.
        legend: each level as it was asked.
        probabilities: of each level, lowest first.
    """

    score: float
    confidence: float
    legend: list[Any]
    probabilities: list[float]


Answer = ChoiceAnswer | NoulAnswer | ScoreAnswer


@dataclass(frozen=True)
class Decision:
    """One answer for every question.

    Attributes:
        model: name of the model that answered.
        answers: by question id; ``decision[id]`` is the same.
        usage: ``input_tokens`` and ``output_tokens``.
        timings: what jevserve adds (``total_ms``, ``cached_tokens``, …); empty from other services.
        request_id: what to quote to the service's operator; empty where it told none.
        raw: the body as it came.
    """

    model: str
    answers: dict[str, Answer]
    usage: dict[str, Any]
    timings: dict[str, Any]
    request_id: str
    raw: dict[str, Any]

    def __getitem__(self, id: str) -> Answer:
        return self.answers[id]


def decision(raw: Mapping[str, Any], asked: Mapping[str, Any], request_id: str) -> Decision:
    """The decision in an answer's body.

    Args:
        raw: the body.
        asked: the questions, by id.

    Raises:
        ValueError: a question is unanswered, or an answer is not what the format says.
    """
    answers = raw["answers"]
    if not isinstance(answers, dict) or answers.keys() != asked.keys():
        raise ValueError("the answers are not those of the questions")
    typed = {id: _answer(id, answers[id]) for id in asked}
    return Decision(
        model=str(raw.get("model", "")),
        answers=typed,
        usage=dict(raw.get("usage") or {}),
        timings=dict(raw.get("x_jevserve") or {}),
        request_id=request_id,
        raw=dict(raw),
    )


def _answer(id: str, answer: Any) -> Answer:
    try:
        match answer["type"]:
            case "choice":
                probabilities = {str(o): _number(p) for o, p in answer["probabilities"].items()}
                chosen = answer["choice"]
                if chosen not in probabilities:
                    raise ValueError
                return ChoiceAnswer(chosen, _number(answer["confidence"]), probabilities)
            case "noul":
                return NoulAnswer(_number(answer["noul"]))
            case "score":
                levels = [str(i) for i in range(len(answer["probabilities"]))]
                return ScoreAnswer(
                    _number(answer["score"]),
                    _number(answer["confidence"]),
                    [answer["legend"][i] for i in levels],
                    [_number(answer["probabilities"][i]) for i in levels],
                )
            case _:
                raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(f"the answer to {id!r} is none of the format") from None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)
