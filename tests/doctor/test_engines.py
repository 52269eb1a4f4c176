"""What is foretold of an engine's cache, against real engines on tiny checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jevserve.checkpoints.prepare import prepare
from jevserve.doctor.engines import EngineCache, described, engine_cache
from jevserve.doctor.trial import run
from jevserve.engine import environment
from jevserve.settings import ModelSettings
from tests.make_checkpoints import make

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def quick_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are forked from this process, which imports vLLM once for all of them."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name, value in environment.environment(kv_cache_gib=1, num_cpus=1).items():
        if name not in os.environ:
            monkeypatch.setenv(name, value)
    if environment.on_cpu():
        monkeypatch.setenv("VLLM_WORKER_MULTIPROCESSING_METHOD", "fork")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.mark.parametrize(
    ("name", "engine_args"),
    [("qwen3-dense", {"block_size": 32}), ("qwen3_5-hybrid", {})],
)
def test_the_blocks_that_are_foretold_are_those_of_the_engine_and_it_does_reuse_them(
    checkpoints: Path, name: str, engine_args: dict[str, int]
) -> None:
    folder, cache = make(name, checkpoints), checkpoints / "cache"
    model = ModelSettings(
        name=name, checkpoint=str(folder), max_model_len=4096, engine_args=engine_args
    )
    prepared = prepare(str(folder), cache=cache)

    foretold = EngineCache(**engine_cache(described(model, prepared)))
    facts = run({"model": model.model_dump(mode="json"), "cache": str(cache)})

    assert foretold.enabled
    assert foretold.hybrid is ("hybrid" in name)
    assert foretold.quantum == facts["quantum"] > 0
    assert facts["shared"] > 2 * foretold.quantum
    # Other questions on a state that has been seen take its whole blocks from the cache.
    assert facts["other"] >= foretold.quantum
    assert facts["other"] % foretold.quantum == 0
    if not foretold.hybrid:
        assert facts["again"] >= 2 * foretold.quantum


def test_arguments_that_vllm_refuses_are_refused_without_an_engine(checkpoints: Path) -> None:
    folder = make("qwen3-dense", checkpoints)
    prepared = prepare(str(folder), cache=checkpoints / "cache")
    model = ModelSettings(name="m", checkpoint=str(folder), engine_args={"blocksize": 3})

    with pytest.raises(TypeError, match="blocksize"):
        engine_cache(described(model, prepared))
