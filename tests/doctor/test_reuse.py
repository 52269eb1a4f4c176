"""Cache reuse: layouts as adapters' real plans show them, against blocks of every size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.adapters.base import EngineProfile, Prepared, Tokenizer
from jevserve.adapters.chat_label import ChatLabel, question_text
from jevserve.adapters.minilm import MiniLM
from jevserve.adapters.rendering import render
from jevserve.checkpoints.prepare import prepare
from jevserve.checkpoints.tokenizer import FileTokenizer
from jevserve.decisions.plan import Plan, PlanBuilder, Readout, ReadoutKind
from jevserve.decisions.request import DecisionRequest
from jevserve.doctor.engines import EngineCache
from jevserve.doctor.findings import Finding, Verdict
from jevserve.doctor.imports import Outcome
from jevserve.doctor.layout import Layout, read_layout
from jevserve.doctor.reuse import judge, judge_scope, judge_trial
from jevserve.settings import ModelSettings
from tests.checkpoints.folders import bert_folder
from tests.tiny_chat import tiny_chat

MODEL = ModelSettings(name="m")
CACHE = EngineCache(enabled=True, quantum=128, hybrid=False, token_bytes=2048, max_model_len=8192)
PROFILE = EngineProfile()


class QuestionFirst(ChatLabel):
    """What no family should do: the question stands before the state."""

    def plan(self, request: DecisionRequest, tokenizer: Tokenizer, prepared: Prepared) -> Plan:
        build = PlanBuilder()
        for _, question in request.questions:
            text = question_text(question, prepared.settings["labels"])
            head = build.segment(tokenizer.encode_text(text))
            leaf = build.segment(tokenizer.encode_text(render(request.state)), head)
            build.row(leaf, Readout(ReadoutKind.LABELS, labels=(0, 1)))
        return build.build()


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(str(tiny_chat()), cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def layout(chat: Prepared) -> Layout:
    return read_layout(ChatLabel(), FileTokenizer(chat.path), chat)


def verdict(layout: Layout, cache: EngineCache = CACHE, model: ModelSettings = MODEL) -> Finding:
    return judge(model, PROFILE, layout, cache, on_cpu=True)[0]


def test_a_chat_familys_layout_puts_the_state_into_what_is_shared(layout: Layout) -> None:
    assert layout.state_first
    assert layout.sample > layout.state > 50
    assert layout.sample < layout.longest < 8_192
    assert layout.same_question < layout.sample - layout.state + 2


def test_states_that_fill_a_block_are_reused_and_shorter_ones_are_told(layout: Layout) -> None:
    fits, long = verdict(layout), verdict(layout, replace(CACHE, quantum=layout.sample + 1))

    assert fits.verdict is Verdict.OK
    assert "blocks of 128 tokens" in fits.seen
    assert long.verdict is Verdict.WARNING
    assert "characters" in long.seen
    assert "block_size: 32" in long.remedy


def test_a_block_that_no_row_can_fill_is_a_layout_that_never_hits(
    chat: Prepared,
) -> None:
    short = replace(chat, settings={**chat.settings, "row_tokens": 512})
    layout = read_layout(ChatLabel(), FileTokenizer(chat.path), short)
    hybrid = EngineCache(True, quantum=640, hybrid=True, token_bytes=0, max_model_len=512)

    finding = verdict(layout, hybrid)

    assert finding.verdict is Verdict.PROBLEM
    assert "can never hit the cache" in finding.seen
    assert "cannot be made smaller" in finding.remedy
    # With the length of the remedy it does hit.
    asked = int(finding.remedy.split("max_model_len to ")[1].split(" ")[0].replace(",", ""))
    longer = replace(chat, settings={**chat.settings, "row_tokens": asked})
    mended = read_layout(ChatLabel(), FileTokenizer(chat.path), longer)
    assert verdict(mended, replace(hybrid, max_model_len=asked)).verdict is not Verdict.PROBLEM


def test_a_question_before_the_state_is_a_layout_that_never_hits(chat: Prepared) -> None:
    layout = read_layout(QuestionFirst(), FileTokenizer(chat.path), chat)

    finding = verdict(layout)

    assert not layout.state_first
    assert finding.verdict is Verdict.PROBLEM
    assert "can never hit the cache" in finding.seen
    # What a question shares with itself can fill small blocks.
    assert verdict(layout, replace(CACHE, quantum=16)).verdict is Verdict.OK


def test_a_sentence_encoder_has_nothing_to_gain(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "bert", max_position_embeddings=256)
    prepared = prepare(str(folder), cache=tmp_path / "cache")
    layout = read_layout(MiniLM(), FileTokenizer(prepared.path), prepared)
    profile = MiniLM().engine_profile(prepared)

    (finding,) = judge(MODEL, profile, layout, None, on_cpu=True)

    assert finding.verdict is Verdict.OK
    assert "nothing to gain" in finding.seen


def test_caching_that_is_switched_off_is_warned_of(layout: Layout) -> None:
    off = ModelSettings(name="m", engine_args={"enable_prefix_caching": False})

    assert verdict(layout, model=off).verdict is Verdict.WARNING
    assert verdict(layout, replace(CACHE, enabled=False)).verdict is Verdict.WARNING


def test_without_vllms_word_nothing_is_claimed(layout: Layout) -> None:
    (finding,) = judge(MODEL, PROFILE, layout, None, on_cpu=True)

    assert finding.verdict is Verdict.SKIPPED


def room(layout: Layout, **changes: Any) -> Finding | None:
    model = MODEL.model_copy(update={"kv_cache_gib": 1})
    found = judge(model, PROFILE, layout, replace(CACHE, **changes), on_cpu=True)
    return found[1] if len(found) > 1 else None


def test_cache_memory_holds_the_longest_row_and_enough_states(layout: Layout) -> None:
    plenty, small = room(layout), room(layout, token_bytes=229_376, max_model_len=32_768)
    few = room(layout, token_bytes=2**20, max_model_len=1_000)

    assert plenty is not None and plenty.verdict is Verdict.OK
    assert small is not None and small.verdict is Verdict.PROBLEM
    assert "kv_cache_gib to 7 or more, or max_model_len to 4,608" in small.remedy
    assert few is not None and few.verdict is Verdict.WARNING
    assert room(layout, hybrid=True) is None


def test_a_scope_of_one_request_is_warned_of() -> None:
    assert [f.verdict for f in judge_scope("request")] == [Verdict.WARNING]
    assert list(judge_scope("tenant")) == []


layouts = st.builds(
    Layout,
    sample=st.integers(0, 2_000),
    state=st.integers(0, 500),
    state_chars=st.just(600),
    same_question=st.integers(0, 300),
    longest=st.integers(0, 10_000),
)


@given(layouts, st.integers(1, 4_096), st.booleans(), st.booleans())
def test_a_layout_never_hits_exactly_where_nothing_shared_fills_a_block(
    layout: Layout, quantum: int, hybrid: bool, on_cpu: bool
) -> None:
    cache = EngineCache(True, quantum, hybrid, 0, 8_192)

    finding = judge(MODEL, PROFILE, layout, cache, on_cpu)[0]

    most = layout.longest if layout.state_first else layout.same_question
    assert (finding.verdict is Verdict.PROBLEM) is (most < quantum)


FACTS = {
    "quantum": 128, "tokens": 300, "shared": 280, "first_ms": 30.0, "again_ms": 9.0,
    "again": 256, "other": 256,
}  # fmt: skip


def trial(**changes: Any) -> Finding:
    done = {"done": "trial", "facts": FACTS | changes}
    (finding,) = judge_trial(MODEL, Outcome((done,), 0))
    return finding


def test_a_real_engines_cached_tokens_are_told() -> None:
    finding = trial()

    assert finding.verdict is Verdict.OK
    assert "256 of 300 tokens came from the cache" in finding.seen
    assert "must have 128 tokens" in finding.seen


def test_a_real_engine_that_never_hits_is_a_problem() -> None:
    assert trial(again=0).verdict is Verdict.OK
    assert trial(again=0, other=0).verdict is Verdict.PROBLEM
    assert "max_model_len" in trial(again=0, other=0, shared=100).remedy
    assert trial(quantum=0, again=0, other=0).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("outcome", "seen"),
    [
        (Outcome(({"begin": "trial"}, {"failed": "trial", "error": "ValueError: no"}), 1), "no"),
        (Outcome(({"begin": "trial"},), None, "", 420.0), "within 420 s"),
        (Outcome((), -9, "last words\n"), "last words"),
        (
            Outcome(
                ({"failed": "trial", "error": "RuntimeError: Engine core initialization failed."},),
                1,
                "(EngineCore pid=7) ERROR ValueError: To serve at least one request\n"
                "RuntimeError: Engine core initialization failed. See root cause above.\n",
            ),
            "does not start: ValueError: To serve at least one request",
        ),
    ],
)
def test_an_engine_that_does_not_start_is_a_problem(outcome: Outcome, seen: str) -> None:
    (finding,) = judge_trial(MODEL, outcome)

    assert finding.verdict is Verdict.PROBLEM
    assert seen in finding.seen
