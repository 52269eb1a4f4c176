"""What the process of an engine must have in its environment before vLLM is imported."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

#: For every device. No telemetry, no network look-ups: prepared folders are complete.
COMMON = {
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # One process less for the same work: the engine core runs the model itself.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}

#: vLLM's CPU build. Binding threads to cores fails where containers hide cores, and compiling
#: costs 40 s at the first request for nothing on this path. oneDNN keeps a kernel for every number
#: of tokens it has met in a round, up to 1,024 of them, and glibc, left to adapt, lays activations
#: of up to 32 MiB between them, where they cannot be given back: gibibytes after a few thousand
#: requests of different lengths. Large blocks of their own cost a small model 5 % of its time.
CPU = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    "MALLOC_MMAP_THRESHOLD_": str(2**20),
    "MALLOC_TRIM_THRESHOLD_": str(2**24),
}


def on_cpu() -> bool:
    """Whether this environment has vLLM's CPU build (``vllm-cpu``)."""
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True


def environment(kv_cache_gib: int, num_cpus: float) -> dict[str, str]:
    """Variables an engine process gets unless they are set already."""
    if not on_cpu():
        return COMMON
    threads = max(1, int(num_cpus))
    return (
        COMMON
        | CPU
        | {
            "VLLM_CPU_KVCACHE_SPACE": str(kv_cache_gib),
            "OMP_NUM_THREADS": str(threads),
        }
    )


def apply(kv_cache_gib: int, num_cpus: float) -> None:
    """Set what is not set; must run before the first import of vllm."""
    for name, value in environment(kv_cache_gib, num_cpus).items():
        os.environ.setdefault(name, value)
