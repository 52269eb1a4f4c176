"""Answers: formulas by hand, ties to the first, and every answer at its own place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.decisions.answers import answer, assemble, choice_confidence, score_confidence
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
from jevserve.decisions.request import (
    Choice,
    ChoiceAnswer,
    DecisionRequest,
    Noul,
    NoulAnswer,
    Score,
    ScoreAnswer,
)
from jevserve.errors import EngineFailed


@st.composite
def distributions(draw: st.DrawFn) -> np.ndarray:
    weights = draw(st.lists(st.floats(1e-6, 1), min_size=1, max_size=20))
    return np.array(weights) / math.fsum(weights)


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        ([1.0], 1.0),
        ([0.5, 0.5], 0.0),
        ([0.88, 0.12], 0.76),  # (0.88 - 1/2) / (1/2)
        ([0.25] * 4, 0.0),
        ([0.7, 0.1, 0.1, 0.1], 0.6),  # (0.7 - 1/4) / (3/4)
        ([0.0, 1.0, 0.0], 1.0),
        ([1 / 3, 1 / 3, 1 / 3], 0.0),
    ],
)
def test_confidence_of_a_choice_by_hand(p: list[float], expected: float) -> None:
    assert choice_confidence(np.array(p)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        ([1.0], 1.0),
        ([0.0, 1.0, 0.0], 1.0),
        ([0.0, 0.95, 0.05], 0.925),  # spread 0.05, uniform spread 2/3
        ([0.25, 0.75], 0.5),  # spread 0.25, uniform spread 1/2
        ([0.5, 0.5], 0.0),
        ([1 / 3, 1 / 3, 1 / 3], 0.0),  # spread from the first mode is 1, more than 2/3
        ([0.1] * 10, 0.0),
        ([0.1, 0.1, 0.6, 0.1, 0.1], 0.5),  # spread 0.6, uniform spread 1.2
    ],
)
def test_confidence_of_a_score_by_hand(p: list[float], expected: float) -> None:
    assert score_confidence(np.array(p)) == pytest.approx(expected, abs=1e-12)


@given(distributions())
def test_confidences_lie_between_zero_and_one(p: np.ndarray) -> None:
    assert 0.0 <= choice_confidence(p) <= 1.0
    assert 0.0 <= score_confidence(p) <= 1.0


@pytest.mark.parametrize("n", [2, 3, 7, 255])
def test_a_uniform_distribution_has_no_confidence(n: int) -> None:
    p = np.full(n, 1 / n)

    assert choice_confidence(p) == pytest.approx(0, abs=1e-12)
    assert score_confidence(p) == pytest.approx(0, abs=1e-12)


@given(distributions())
def test_a_choice_is_the_argmax_of_what_is_returned(p: np.ndarray) -> None:
    names = [f"option {i}" for i in range(len(p))]

    given = answer(Choice(tuple((n, None) for n in names)), p)

    assert isinstance(given, ChoiceAnswer)
    assert list(given.probabilities) == names
    assert list(given.probabilities.values()) == p.tolist()
    first_best = max(range(len(p)), key=lambda i: (p[i], -i))
    assert given.choice == names[first_best]
    assert given.confidence == choice_confidence(p)


def test_a_tie_goes_to_the_option_named_first() -> None:
    question = Choice((("z", None), ("b", None), ("a", None)))

    given = answer(question, np.array([0.2, 0.4, 0.4]))

    assert isinstance(given, ChoiceAnswer)
    assert given.choice == "b"


@given(distributions())
def test_a_score_is_the_expected_level_of_what_is_returned(p: np.ndarray) -> None:
    given = answer(Score(tuple(f"level {i}" for i in range(len(p)))), p)

    assert isinstance(given, ScoreAnswer)
    assert given.score == pytest.approx(math.fsum(i * x for i, x in enumerate(p)), abs=1e-9)
    assert 0 <= given.score <= len(p) - 1 + 1e-9
    assert given.probabilities == tuple(p)
    assert given.confidence == score_confidence(p)


def test_the_legend_is_the_levels_as_they_were_sent() -> None:
    levels = ("Calm\n", {"b": [1, None], "a": "x"}, ["very", {"angry": True}])

    given = answer(Score(levels), np.array([0.5, 0.25, 0.25]))

    assert isinstance(given, ScoreAnswer)
    assert given.legend == levels
    assert all(a is b for a, b in zip(given.legend, levels, strict=True))
    assert list(given.legend[1]) == ["b", "a"]


def test_a_noul_is_the_probability_of_true() -> None:
    assert answer(Noul("x"), np.array([0.9, 0.1])) == NoulAnswer(0.9)


def plan_of(*combines: Combine) -> Plan:
    rows = sorted({r for c in combines for r in c.rows})
    return Plan(
        segments=(Segment(ROOT, (1,)),),
        rows=tuple(Row(0, Readout(ReadoutKind.LABELS, labels=(r,))) for r in rows),
        combines=combines,
    )


def test_every_question_is_answered_at_its_own_place_whatever_the_plans_order() -> None:
    request = DecisionRequest(
        "state",
        (
            ("b", Noul("first")),
            ("a", Choice((("x", "same"), ("y", "same"), ("z", "same")))),
            ("only", Choice((("one", None),))),
        ),
    )
    plan = plan_of(
        Combine(2, CombineRule.CERTAIN),
        Combine(1, CombineRule.SOFTMAX_ROW, (0,)),
        Combine(0, CombineRule.SOFTMAX_ROW, (1,)),
    )
    results = (RowResult((0.0, 5.0, -5.0)), RowResult((9.0, 0.0)))

    answers = assemble(request, plan, results)

    assert [id for id, _ in answers] == ["b", "a", "only"]
    noul, choice, only = (a for _, a in answers)
    assert isinstance(noul, NoulAnswer)
    assert noul.noul > 0.99
    assert isinstance(choice, ChoiceAnswer)
    assert choice.choice == "y"
    assert len(choice.probabilities) == 3
    assert only == ChoiceAnswer("one", 1.0, {"one": 1.0})


def test_equal_levels_are_kept_apart() -> None:
    request = DecisionRequest("state", (("s", Score(("same", "same", "same"))),))
    plan = plan_of(Combine(0, CombineRule.SOFTMAX_ROW, (0,)))

    ((_, given),) = assemble(request, plan, (RowResult((0.0, 0.0, 50.0)),))

    assert isinstance(given, ScoreAnswer)
    assert given.score == pytest.approx(2)
    assert len(given.probabilities) == len(given.legend) == 3


def test_questions_that_share_a_row_each_get_their_answer() -> None:
    request = DecisionRequest("state", (("a", Noul("x")), ("b", Noul("x"))))
    plan = plan_of(
        Combine(0, CombineRule.SOFTMAX_ROW, (0,)), Combine(1, CombineRule.SOFTMAX_ROW, (0,))
    )

    (_, a), (_, b) = assemble(request, plan, (RowResult((1.0, 0.0)),))

    assert a == b


@pytest.mark.parametrize("rows", [0, 2])
def test_results_that_are_not_one_a_row_fail_the_decision(rows: int) -> None:
    request = DecisionRequest("state", (("a", Noul("x")),))
    plan = plan_of(Combine(0, CombineRule.SOFTMAX_ROW, (0,)))

    with pytest.raises(EngineFailed, match=f"{rows} of 1 rows"):
        assemble(request, plan, (RowResult((1.0, 0.0)),) * rows)
