"""Engine arguments: what the service decides, what an operator may, and the label table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from jevserve.adapters.base import EngineProfile, Prepared
from jevserve.engine import arguments
from jevserve.engine.arguments import OWNED, engine_arguments, kv_cache_gib
from jevserve.errors import CheckpointError, SettingsError
from jevserve.settings import ModelSettings

LABELS = EngineProfile(
    runner="pooling", convert="classify", task="classify", label_ids=(2, 0), max_model_len=512
)


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "on_cpu", lambda: False)


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    vocabulary = {"A": 0, "B": 1, "Ġ": 2}
    Tokenizer(models.WordLevel(vocabulary, unk_token="A")).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    return Prepared(tmp_path, "chat-label", "revision", {})


def model(**fields: object) -> ModelSettings:
    return ModelSettings.model_validate({"name": "m"} | fields)


def test_a_pooling_engine_with_labels_gets_them_as_its_classifier(prepared: Prepared) -> None:
    made = engine_arguments(prepared, LABELS, model())

    assert made["model"] == str(prepared.path)
    assert (made["runner"], made["convert"]) == ("pooling", "classify")
    assert made["pooler_config"] == {"task": "classify"}
    assert made["hf_overrides"] == {
        "num_labels": 2,
        "classifier_from_token": ["Ġ", "A"],
        "method": "no_post_processing",
    }
    assert "max_logprobs" not in made


def test_a_familys_own_overrides_and_pooling_type_are_kept(prepared: Prepared) -> None:
    profile = EngineProfile(
        convert="embed", task="embed", hf_overrides={"a": 1}, pooling_type="MEAN"
    )

    made = engine_arguments(prepared, profile, model())

    assert made["hf_overrides"] == {"a": 1}
    assert made["pooler_config"] == {"task": "embed", "pooling_type": "MEAN"}


@pytest.mark.parametrize(("labels", "logprobs"), [(3, 20), (128, 128)])
def test_a_generating_engine_may_return_as_many_logprobs_as_there_are_labels(
    prepared: Prepared, labels: int, logprobs: int
) -> None:
    profile = EngineProfile(runner="generate", label_ids=tuple(range(labels)))

    made = engine_arguments(prepared, profile, model())

    assert made["max_logprobs"] == logprobs
    assert made.keys().isdisjoint({"convert", "pooler_config", "hf_overrides"})


@pytest.mark.parametrize(
    ("family", "operator", "used"), [(512, 4_096, 512), (8_192, 4_096, 4_096), (None, 64, 64)]
)
def test_the_longest_row_is_the_lower_of_two_limits(
    prepared: Prepared, family: int | None, operator: int, used: int
) -> None:
    profile = EngineProfile(max_model_len=family)

    made = engine_arguments(prepared, profile, model(max_model_len=operator))

    assert made["max_model_len"] == used


@pytest.mark.parametrize(
    ("family", "operator", "used"),
    [
        ("auto", "auto", "auto"),
        ("bfloat16", "auto", "bfloat16"),
        ("bfloat16", "float16", "float16"),
    ],
)
def test_the_operators_dtype_wins_over_the_familys(
    prepared: Prepared, family: str, operator: str, used: str
) -> None:
    made = engine_arguments(prepared, EngineProfile(dtype=family), model(dtype=operator))

    assert made["dtype"] == used


def test_a_family_without_a_prefix_cache_gets_none(prepared: Prepared) -> None:
    made = engine_arguments(prepared, EngineProfile(prefix_caching=False), model())

    assert made["enable_prefix_caching"] is False


def test_no_code_of_a_checkpoint_is_trusted_and_answers_are_repeatable(
    prepared: Prepared,
) -> None:
    made = engine_arguments(prepared, LABELS, model())

    assert made["trust_remote_code"] is False
    assert made["seed"] == 0


def test_engine_args_reach_vllm_as_they_are(prepared: Prepared) -> None:
    made = engine_arguments(prepared, LABELS, model(engine_args={"block_size": 32, "seed": 7}))

    assert (made["block_size"], made["seed"]) == (32, 7)


@pytest.mark.parametrize("name", sorted(OWNED))
def test_what_the_service_owns_cannot_be_set_through_engine_args(
    prepared: Prepared, name: str
) -> None:
    with pytest.raises(SettingsError, match=rf"models\.m\.engine_args may not set \['{name}'\]"):
        engine_arguments(prepared, LABELS, model(engine_args={name: None}))


def test_owned_are_all_arguments_that_carry_the_readout() -> None:
    carried = {"model", "runner", "convert", "pooler_config", "hf_overrides", "trust_remote_code"}

    assert carried <= OWNED


def test_a_label_that_the_tokenizer_does_not_have_is_refused(prepared: Prepared) -> None:
    profile = EngineProfile(convert="classify", task="classify", label_ids=(0, 99))

    with pytest.raises(CheckpointError, match=r"no tokens \[99\]"):
        engine_arguments(prepared, profile, model())


def test_a_cpu_engine_does_not_compile(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "enforce_eager" not in engine_arguments(prepared, LABELS, model())

    monkeypatch.setattr(arguments, "on_cpu", lambda: True)

    assert engine_arguments(prepared, LABELS, model())["enforce_eager"] is True


ATTENTION = {"num_hidden_layers": 28, "num_key_value_heads": 8, "head_dim": 128}
HYBRID = ATTENTION | {"layer_types": ["linear_attention", "full_attention"] * 14}


@pytest.mark.parametrize(
    ("config", "rows", "gib"),
    [
        # 28 layers x 2 x 8 heads x 128 x 4 bytes are 229,376 bytes a token.
        (ATTENTION, 8_192, 2),
        (ATTENTION, 32_768, 8),
        # Half of the layers, and two bytes a number.
        (HYBRID | {"linear_conv_kernel_dim": 4}, 32_768, 2),
        ({"text_config": ATTENTION}, 8_192, 2),
        ({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}, 32_768, 1),
        ({}, 8_192, 1),
    ],
)
def test_a_cpu_engines_cache_holds_one_longest_row_unless_told_otherwise(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch, config: dict, rows: int, gib: int
) -> None:
    monkeypatch.setattr(arguments, "on_cpu", lambda: True)
    (prepared.path / "config.json").write_text(json.dumps(config))
    profile = EngineProfile(max_model_len=40_960)

    assert kv_cache_gib(prepared, profile, model(max_model_len=rows)) == gib
    assert kv_cache_gib(prepared, profile, model(max_model_len=rows, kv_cache_gib=5)) == 5
