"""Plans of the similarity adapter: rows, windows, orientation, and what never reaches a row."""

from __future__ import annotations

import importlib.resources
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.adapters.base import Certainty, CheckpointFiles, Prepared, check_budget
from jevserve.adapters.minilm import SPECIALS, MiniLM, calibration, candidates, windows
from jevserve.decisions.combine import probabilities
from jevserve.decisions.plan import CombineRule, Plan, RowResult
from jevserve.decisions.request import (
    Choice,
    DecisionRequest,
    Noul,
    Question,
    Score,
    candidate_count,
)
from jevserve.errors import CheckpointError, MaxTokensExceeded

START, END, ROW, STATE = 900, 901, 16, 64


class Words:
    """One id per word, the same for the same word."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode_text(self, text: str) -> list[int]:
        return [self.ids.setdefault(w, len(self.ids)) for w in text.split()]

    def encode_template(self, text: str) -> list[int]:
        return {"[CLS]": [START], "[SEP]": [END]}.get(text, [])


ADAPTER = MiniLM()
PREPARED = Prepared(
    Path("/nowhere"),
    "minilm",
    "r",
    {
        "form": 1,
        "row_tokens": ROW,
        "state_tokens": STATE,
        "start": START,
        "end": END,
        "forms": calibration()["forms"],
    },
)


def plan(*questions: Question, state: Any = "a state", words: Words | None = None) -> Plan:
    asked = tuple((f"secret_id_{i}", q) for i, q in enumerate(questions))
    return ADAPTER.plan(DecisionRequest(state, asked), words or Words(), PREPARED)


def texts(built: Plan, words: Words) -> list[str]:
    by_id = {id: word for word, id in words.ids.items()}
    return [
        " ".join(by_id[t] for t in built.tokens(r) if t in by_id) for r in range(len(built.rows))
    ]


def vectors(built: Plan, seed: int = 0) -> tuple[RowResult, ...]:
    """One random vector per row, a function of the row's tokens alone."""
    out = []
    for r in range(len(built.rows)):
        rng = np.random.default_rng([seed, *built.tokens(r)])
        out.append(RowResult(tuple(rng.standard_normal(8).tolist())))
    return tuple(out)


WORD = st.text(alphabet="abcdef", min_size=1, max_size=4)
TEXT = st.lists(WORD, min_size=1, max_size=6).map(" ".join)
QUESTION = st.one_of(
    st.builds(
        Choice,
        st.lists(
            st.tuples(WORD, st.none() | TEXT), min_size=1, max_size=6, unique_by=lambda o: o[0]
        ).map(tuple),
        st.none() | TEXT,
    ),
    st.builds(Noul, TEXT, st.none() | TEXT, st.none() | TEXT),
    st.builds(Noul, st.none(), TEXT, st.none() | TEXT),
    st.builds(Score, st.lists(TEXT, min_size=1, max_size=10).map(tuple), st.none() | TEXT),
)


@given(questions=st.lists(QUESTION, min_size=1, max_size=4), state=TEXT)
def test_every_question_gets_probabilities_of_its_candidates(
    questions: list[Question], state: str
) -> None:
    built = plan(*questions, state=state)
    assert [c.question for c in built.combines] == list(range(len(questions)))
    for question, combine in zip(questions, built.combines, strict=True):
        p = probabilities(combine, built, vectors(built), candidate_count(question))
        assert p.shape == (candidate_count(question),)
        assert p.sum() == pytest.approx(1.0)
        assert (p >= 0).all()


@given(questions=st.lists(QUESTION, min_size=1, max_size=4), state=TEXT)
def test_rows_are_framed_and_no_two_are_equal(questions: list[Question], state: str) -> None:
    built = plan(*questions, state=state)
    rows = [tuple(built.tokens(r)) for r in range(len(built.rows))]
    assert len(set(rows)) == len(rows)
    assert all(row[0] == START and row[-1] == END for row in rows)


@given(questions=st.lists(QUESTION, min_size=2, max_size=4), state=TEXT)
def test_an_answer_does_not_depend_on_the_company_of_its_question(
    questions: list[Question], state: str
) -> None:
    words = Words()
    together, alone = (
        plan(*questions, state=state, words=words),
        plan(questions[-1], state=state, words=words),
    )
    n = candidate_count(questions[-1])
    np.testing.assert_array_equal(
        probabilities(together.combines[-1], together, vectors(together), n),
        probabilities(alone.combines[-1], alone, vectors(alone), n),
    )


@given(options=st.lists(WORD, min_size=2, max_size=6, unique=True), state=TEXT, data=st.data())
def test_the_order_of_options_does_not_matter(
    options: list[str], state: str, data: st.DataObject
) -> None:
    words, shuffled = Words(), data.draw(st.permutations(options))
    found = []
    for names in (options, shuffled):
        built = plan(Choice(tuple((n, None) for n in names)), state=state, words=words)
        p = probabilities(built.combines[0], built, vectors(built), len(names))
        found.append(dict(zip(names, p, strict=True)))
    assert found[0] == pytest.approx(found[1])


def test_swapping_both_criteria_of_a_noul_swaps_its_answer() -> None:
    words = Words()
    one = plan(Noul(true="it rains", false="it shines"), words=words)
    other = plan(Noul(true="it shines", false="it rains"), words=words)
    p, q = (probabilities(b.combines[0], b, vectors(b), 2) for b in (one, other))
    np.testing.assert_allclose(p, q[::-1])


def test_a_criterion_for_no_counts_against_yes() -> None:
    words = Words()
    yes = plan(Noul(true="it rains"), words=words)
    no = plan(Noul(false="it rains"), words=words)
    p, q = (probabilities(b.combines[0], b, vectors(b), 2) for b in (yes, no))
    np.testing.assert_allclose(p, q[::-1])


def test_ids_and_instructions_reach_no_row_where_candidates_have_texts() -> None:
    words = Words()
    built = plan(
        Choice((("key", "meaning"), ("other", None)), "instructions"),
        Noul("instructions", "criterion"),
        Score(("low", "high"), "instructions"),
        words=words,
    )
    assert texts(built, words) == ["a state", "key: meaning", "other", "criterion", "low", "high"]


def test_single_candidates_need_no_rows() -> None:
    built = plan(Choice((("only", None),)), Score(("only",)))
    assert not built.rows
    assert {c.rule for c in built.combines} == {CombineRule.CERTAIN}


def test_structured_texts_are_rendered() -> None:
    words = Words()
    built = plan(
        Choice((("a", {"means": "this"}), ("b", ["x", "y"]))), state={"order": 7}, words=words
    )
    assert texts(built, words) == ["order: 7", "a: means: this", "b: - x - y"]


@given(n=st.integers(0, 2_000), size=st.integers(1, 254))
def test_windows_lose_nothing_fit_and_are_even(n: int, size: int) -> None:
    tokens = list(range(n))
    parts = windows(tokens, size)
    assert [t for part in parts for t in part] == tokens
    lengths = [len(part) for part in parts]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1
    assert len(parts) == max(1, -(-n // size))


def test_a_long_state_is_the_reference_in_windows() -> None:
    state = " ".join(f"w{i}" for i in range(30))
    built = plan(Choice((("a", None), ("b", None))), state=state)
    assert [built.row_length(r) for r in built.combines[0].reference] == [10 + SPECIALS] * 3


def test_an_empty_state_is_still_a_row() -> None:
    built = plan(Choice((("a", None), ("b", None))), state="")
    assert built.tokens(built.combines[0].reference[0]) == [START, END]


def test_a_state_over_the_limit_is_refused_with_both_numbers() -> None:
    state = " ".join(f"w{i}" for i in range(STATE + 1))
    with pytest.raises(MaxTokensExceeded, match=rf"{STATE + 1} tokens.*{STATE}"):
        plan(Choice((("a", None), ("b", None))), state=state)


def test_a_candidate_longer_than_a_row_is_refused_not_cut() -> None:
    question = Choice((("a", " ".join(f"w{i}" for i in range(ROW))), ("b", None)))
    request = DecisionRequest("s", (("q", question),))
    built = ADAPTER.plan(request, Words(), PREPARED)
    with pytest.raises(MaxTokensExceeded, match=str(ROW)):
        check_budget(built, request, ADAPTER.limits(PREPARED))


def test_every_form_a_question_can_take_has_a_usable_scale() -> None:
    questions: list[Question] = [
        Choice((("a", None), ("b", "x"))),
        Choice((("a", "x"), ("b", "y"))),
        Noul("q", "t", "f"),
        Noul("q", "t"),
        Noul("q"),
        Score(("a", "b")),
    ]
    forms = calibration()["forms"]
    assert {candidates(q)[0] for q in questions} == set(forms)
    for fitted in forms.values():
        assert 0 <= fitted["scale"] <= 100
        assert abs(fitted["bias"]) < 50
    # Candidates that compete have no bias: their order would matter.
    assert all(
        forms[f]["bias"] == 0 for f in forms if f not in ("noul.criterion", "noul.instructions")
    )


def test_the_calibration_names_the_weights_it_was_fitted_on() -> None:
    text = importlib.resources.files("jevserve.adapters").joinpath("minilm_calibration.json")
    document = json.loads(text.read_text())
    assert len(document["weights"]) == 64
    assert "seed" in document["provenance"]["generated"]


def files(config: Any, modules: Any = None) -> CheckpointFiles:
    parsed = {"config.json": config} | ({} if modules is None else {"modules.json": modules})
    return CheckpointFiles(frozenset(parsed), parsed)


BERT = {"architectures": ["BertModel"]}
ENCODER = [
    {"type": f"sentence_transformers.models.{m}"} for m in ("Transformer", "Pooling", "Normalize")
]


def test_a_sentence_encoder_is_certain_and_a_bare_bert_possible() -> None:
    certain, possible = ADAPTER.probe(files(BERT, ENCODER)), ADAPTER.probe(files(BERT))
    assert certain
    assert certain.certainty is Certainty.CERTAIN
    assert possible
    assert possible.certainty is Certainty.POSSIBLE


@pytest.mark.parametrize(
    "config", [{}, [], {"architectures": "BertModel"}, {"architectures": ["X"]}]
)
def test_anything_else_is_no_match(config: Any) -> None:
    assert ADAPTER.probe(files(config, ENCODER)) is None


@pytest.mark.parametrize("modules", [3, [3], [{}], {}, [{"type": 3}]])
def test_odd_modules_do_not_break_the_probe(modules: Any) -> None:
    match = ADAPTER.probe(files(BERT, modules))
    assert match
    assert match.certainty is Certainty.POSSIBLE


def test_other_pooling_is_refused_at_preparation(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BERT))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    with pytest.raises(CheckpointError, match=r"pooling_mode_cls_token.*only mean"):
        ADAPTER.prepare(tmp_path, tmp_path, Words())
