"""What vLLM will make of a model's engine arguments, without weights. Imports vLLM when called."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jevserve.adapters.base import Prepared
from jevserve.settings import ModelSettings


@dataclass(frozen=True)
class EngineCache:
    """The prefix cache that an engine will have.

    Attributes:
        enabled: whether vLLM keeps prefixes of this model at all.
        quantum: tokens per reusable block; only whole blocks are reused.
        hybrid: whether the model has recurrent layers beside attention.
        token_bytes: cache bytes of one token in all attention layers, 0 where unknown.
        max_model_len: longest row that vLLM will take.
    """

    enabled: bool
    quantum: int
    hybrid: bool
    token_bytes: int
    max_model_len: int


def described(model: ModelSettings, prepared: Prepared) -> dict[str, Any]:
    """What a probe is given of a model, as JSON."""
    return {
        "model": model.model_dump(mode="json"),
        "prepared": asdict(prepared) | {"path": str(prepared.path)},
    }


def engine_cache(entry: dict[str, Any]) -> dict[str, Any]:
    """The fields of an ``EngineCache`` for a ``described`` model, by vLLM's own rules.

    Raises:
        Exception: whatever vLLM says to arguments that it refuses.
    """
    from vllm.config import PoolerConfig
    from vllm.engine.arg_utils import AsyncEngineArgs

    from jevserve.adapters.registry import find
    from jevserve.engine.arguments import engine_arguments

    model = ModelSettings.model_validate(entry["model"])
    prepared = Prepared(**entry["prepared"] | {"path": Path(entry["prepared"]["path"])})
    profile = find(prepared.protocol).engine_profile(prepared)
    arguments = engine_arguments(prepared, profile, model)
    if "pooler_config" in arguments:
        arguments["pooler_config"] = PoolerConfig(**arguments["pooler_config"])
    config = AsyncEngineArgs(**arguments).create_engine_config()
    cache, about = config.cache_config, config.model_config
    enabled = bool(cache.enable_prefix_caching)
    if enabled:
        settle_block_size(config)
    return asdict(
        EngineCache(
            enabled=enabled,
            quantum=int(cache.block_size or 0) if enabled else 0,
            hybrid=bool(about.is_hybrid),
            token_bytes=token_bytes(config) if enabled else 0,
            max_model_len=int(about.max_model_len),
        )
    )


def settle_block_size(config: Any) -> None:
    """Let vLLM choose the block size as it does once the model's layers are there.

    It asks a loaded layer for the attention backend; here the backend is found by the rules that
    a layer finds it by.
    """
    from vllm.config import set_current_vllm_config
    from vllm.platforms import current_platform
    from vllm.v1.attention.selector import get_attn_backend

    about = config.model_config
    with set_current_vllm_config(config):
        backend = get_attn_backend(
            about.get_head_size(),
            about.dtype,
            config.cache_config.cache_dtype,
            use_mla=about.use_mla,
        )

    class Known(type(current_platform)):  # type: ignore[misc]
        @classmethod
        def _find_non_ssm_backend(cls, vllm_config: Any) -> Any:
            return backend

    Known.update_block_size_for_backend(config)


def token_bytes(config: Any) -> int:
    about, parallel = config.model_config, config.parallel_config
    if about.use_mla or config.cache_config.cache_dtype != "auto":
        return 0
    layers = about.get_num_layers_by_block_type(parallel, "attention")
    heads = about.get_num_kv_heads(parallel)
    return int(layers * heads * about.get_head_size() * 2 * about.dtype.itemsize)
