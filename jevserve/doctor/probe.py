"""``python -m jevserve.doctor.probe STEP ...``: imports that may hang or crash, one by one.

Reports on standard output, one JSON object a line: ``{"begin": step}``, then ``{"done": step,
"facts": …}`` or ``{"failed": step, "error": …}``. A process that ends after a "begin" ended in
that step. A failed step ends the process. Standard input holds what steps need, as JSON.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

Facts = dict[str, Any]

#: vLLM names these libraries otherwise than their module, so that Python complains after loading.
LOADED_ANYWAY = "dynamic module does not define module export function"


def torch_step(given: Any) -> Facts:
    import torch

    return {"version": torch.__version__, "cuda": torch.version.cuda}


def driver_step(given: Any) -> Facts:
    """NVIDIA's driver through torch, where torch is built for it."""
    import torch

    if torch.version.cuda is None:
        return {}
    torch.cuda.init()
    return {"gpus": torch.cuda.device_count()}


def vllm_step(given: Any) -> Facts:
    from jevserve.engine import environment

    environment.apply(1, 1)
    import vllm

    return {"version": vllm.__version__}


def kernels_step(given: Any) -> Facts:
    """The compiled extension that vLLM would load here; it only logs where it cannot."""
    import torch

    name = "vllm._C"
    if torch.version.cuda is not None:
        name = "vllm._C_stable_libtorch"
    elif platform.machine() == "x86_64":
        if not torch.cpu._is_avx512_supported():
            name = "vllm._C_AVX2"
        elif not torch.cpu._is_avx512_bf16_supported():
            name = "vllm._C_AVX512"
    try:
        import_module(name)
    except ImportError as error:
        if LOADED_ANYWAY not in str(error):
            raise
    return {"extension": name}


def ray_step(given: Any) -> Facts:
    import ray
    import ray.serve

    return {"version": ray.__version__}


def engines_step(given: Any) -> Facts:
    """What vLLM makes of each model's arguments: names to facts, or to ``{"error": …}``."""
    from jevserve.doctor.engines import engine_cache

    found = {}
    for entry in given:
        try:
            found[entry["model"]["name"]] = engine_cache(entry)
        except Exception as error:
            found[entry["model"]["name"]] = {"error": f"{type(error).__name__}: {error}"[:2_000]}
    return found


def rehearsal_step(given: Any) -> Facts:
    """What preparing folders gives, by the models' names."""
    from dataclasses import asdict

    from jevserve.doctor.rehearsal import Rehearsal, rehearse

    found = rehearse([Rehearsal(**r) for r in given])
    return {"found": {name: asdict(r) for name, r in found.items()}}


def trial_step(given: Any) -> Facts:
    from jevserve.doctor.trial import run

    return run(given)


STEPS: dict[str, Callable[[Any], Facts]] = {
    "torch": torch_step,
    "driver library": driver_step,
    "vllm": vllm_step,
    "kernels": kernels_step,
    "ray": ray_step,
    "engines": engines_step,
    "rehearsal": rehearsal_step,
    "trial": trial_step,
}


def main(names: list[str]) -> int:
    # What libraries print goes to standard error; the reports keep standard output to themselves.
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def report(**line: Any) -> None:
        reports.write(json.dumps(line) + "\n")
        reports.flush()

    given = json.load(sys.stdin)
    for name in names:
        report(begin=name)
        began = time.monotonic()
        try:
            facts = STEPS[name](given)
        except Exception as error:
            report(failed=name, error=f"{type(error).__name__}: {error}"[:4_000])
            return 1
        report(done=name, facts={"seconds": time.monotonic() - began} | facts)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
