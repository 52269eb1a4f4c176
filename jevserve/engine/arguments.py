"""From an adapter's profile and the model's settings to vLLM's engine arguments."""

from __future__ import annotations

import json
import math
from typing import Any

from tokenizers import Tokenizer

from jevserve.adapters.base import EngineProfile, Prepared
from jevserve.engine.environment import on_cpu
from jevserve.errors import CheckpointError, SettingsError
from jevserve.settings import ModelSettings

#: Owned by the service: changing them through ``engine_args`` would break a promise, or give a
#: setting a second name that routers do not read.
OWNED = {
    "model",
    "dtype",
    "max_model_len",
    "max_logprobs",
    "disable_log_stats",
    "tokenizer",
    "runner",
    "convert",
    "pooler_config",
    "hf_overrides",
    "trust_remote_code",
    "skip_tokenizer_init",
}

#: Configuration entries that only models with recurrent layers have.
RECURRENT = ("mamba_d_conv", "mamba_d_state", "linear_conv_kernel_dim", "conv_L_cache")

#: vLLM's name of the load rule that keeps chosen output-embedding rows as a classifier.
LABEL_TABLE_METHOD = "no_post_processing"


def engine_arguments(
    prepared: Prepared, profile: EngineProfile, model: ModelSettings
) -> dict[str, Any]:
    """Keyword arguments of ``AsyncEngineArgs``; ``pooler_config`` is a plain dictionary.

    Raises:
        SettingsError: ``engine_args`` touches what the service owns.
        CheckpointError: a label id is not in the tokenizer.
    """
    owned = OWNED & model.engine_args.keys()
    if owned:
        raise SettingsError(f"models.{model.name}.engine_args may not set {sorted(owned)}")
    arguments: dict[str, Any] = {
        "model": str(prepared.path),
        "runner": profile.runner,
        "dtype": dtype(prepared, profile, model),
        "max_model_len": min(profile.max_model_len or model.max_model_len, model.max_model_len),
        "enable_prefix_caching": profile.prefix_caching,
        "seed": 0,
        "trust_remote_code": False,
        "disable_log_stats": False,
    }
    if profile.runner == "pooling":
        arguments["convert"] = profile.convert
        arguments["pooler_config"] = {"task": profile.task} | (
            {"pooling_type": profile.pooling_type} if profile.pooling_type else {}
        )
    overrides = dict(profile.hf_overrides)
    if profile.runner == "pooling" and profile.label_ids:
        overrides |= {
            "num_labels": len(profile.label_ids),
            "classifier_from_token": token_strings(prepared, profile.label_ids),
            "method": LABEL_TABLE_METHOD,
        }
    if overrides:
        arguments["hf_overrides"] = overrides
    if profile.runner == "generate":
        arguments["max_logprobs"] = max(20, len(profile.label_ids))
    if on_cpu():
        arguments["enforce_eager"] = True
    return arguments | model.engine_args


def dtype(prepared: Prepared, profile: EngineProfile, model: ModelSettings) -> str:
    """The operator's dtype, else the family's, else what suits the device.

    On a CPU, float32 is exact for float32 checkpoints and, without bfloat16 instructions, three
    times faster. Recurrent layers are the exception: the gated delta net has no float32 kernel
    there, and vLLM 0.29 cannot load a float32 causal convolution on CPUs with AVX-512 BF16.
    """
    for wanted in (model.dtype, profile.dtype):
        if wanted != "auto":
            return wanted
    if not on_cpu():
        return "auto"
    config = json.loads((prepared.path / "config.json").read_text())
    text = config.get("text_config") or config
    return "bfloat16" if any(key in text for key in RECURRENT) else "float32"


def kv_cache_gib(prepared: Prepared, profile: EngineProfile, model: ModelSettings) -> int:
    """GiB of a CPU engine's prefix cache: the operator's, else enough for one longest row.

    vLLM refuses to start with less. Layers of a kind that is not known count as attention.
    """
    if model.kv_cache_gib is not None:
        return model.kv_cache_gib
    config = json.loads((prepared.path / "config.json").read_text())
    text = config.get("text_config") or config
    heads = int(text.get("num_attention_heads") or 0)
    size = text.get("head_dim") or int(text.get("hidden_size") or 0) // max(heads, 1)
    kinds = text.get("layer_types") or ["attention"] * int(text.get("num_hidden_layers") or 0)
    layers = sum("attention" in kind and "linear" not in kind for kind in kinds)
    width = 4 if dtype(prepared, profile, model) == "float32" else 2
    token = 2 * layers * int(text.get("num_key_value_heads") or heads) * size * width
    rows = min(profile.max_model_len or model.max_model_len, model.max_model_len)
    # A tenth more, because the cache is of whole blocks.
    return max(1, math.ceil(1.1 * rows * token / 2**30))


def token_strings(prepared: Prepared, ids: tuple[int, ...]) -> list[str]:
    """The vocabulary entries of token ids, as the label-table loader wants them."""
    vocabulary = Tokenizer.from_file(str(prepared.path / "tokenizer.json"))
    strings = [vocabulary.id_to_token(id) for id in ids]
    missing = [id for id, s in zip(ids, strings, strict=True) if s is None]
    if missing:
        raise CheckpointError(f"{prepared.path}: the tokenizer has no tokens {missing[:5]}")
    return strings
