"""GPUs: builds, drivers, counts and memory, from what nvidia-smi and torch's files say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jevserve.doctor.findings import GIB, Finding, Verdict
from jevserve.doctor.gpu import (
    Gpu,
    Gpus,
    TorchBuild,
    gpus_wanted,
    judge,
    parse_gpus,
    parse_torch,
    read_torch,
)
from jevserve.settings import ModelSettings, ServiceSettings

CPU, CUDA = TorchBuild("2.13.0+cpu", None), TorchBuild("2.13.0", "13.0")
H200 = Gpu(0, "NVIDIA H200", 140 * GIB, 0, "580.65", 9.0)
ONE = Gpus(smi=True, gpus=(H200,), cuda="13.0", module=True)
NONE = Gpus()


def service(**model: Any) -> ServiceSettings:
    return ServiceSettings(models=(ModelSettings(name="m", **model),))


def judged(
    gpus: Gpus, torch: TorchBuild | None, cpu_build: bool, settings: ServiceSettings | None = None
) -> dict[str, Finding]:
    return {f.check: f for f in judge(gpus, torch, cpu_build, settings or service())}


def bad(findings: dict[str, Finding]) -> dict[str, Verdict]:
    return {c: f.verdict for c, f in findings.items() if f.verdict is not Verdict.OK}


def test_a_cpu_build_on_a_machine_without_gpus_is_fine() -> None:
    assert bad(judged(NONE, CPU, cpu_build=True)) == {}


def test_a_cuda_build_with_a_gpu_and_its_driver_is_fine() -> None:
    assert bad(judged(ONE, CUDA, cpu_build=False)) == {}


def test_a_gpu_that_a_cpu_build_leaves_idle_is_named_with_the_build_to_install() -> None:
    found = judged(ONE, CPU, cpu_build=True)

    assert bad(found) == {"build": Verdict.WARNING}
    assert "H200" in found["build"].seen
    assert "DEVICE=gpu" in found["build"].remedy


def test_settings_that_ask_for_a_gpu_of_a_cpu_build_cannot_work() -> None:
    settings = service(resources={"device": "gpu"})

    assert bad(judged(ONE, CPU, True, settings)) == {"build": Verdict.PROBLEM}


def test_a_cpu_torch_under_a_cuda_vllm_is_a_problem() -> None:
    assert bad(judged(ONE, CPU, cpu_build=False)) == {"build": Verdict.PROBLEM}


def test_torch_that_is_not_there_is_a_problem() -> None:
    assert bad(judged(NONE, None, cpu_build=True)) == {"build": Verdict.PROBLEM}


@pytest.mark.parametrize(
    ("gpus", "remedy"),
    [
        (NONE, "install the driver"),
        (Gpus(module=True), "--gpus all"),
        (Gpus(smi=True, error="couldn't communicate"), "load the driver again"),
        (replace(ONE, cuda="12.4"), "CUDA 13 or newer"),
    ],
)
def test_each_way_of_having_no_working_driver_has_its_own_remedy(gpus: Gpus, remedy: str) -> None:
    found = judged(gpus, CUDA, cpu_build=False)

    assert found["driver"].verdict is Verdict.PROBLEM
    assert remedy in found["driver"].remedy


def test_a_driver_of_the_same_major_version_runs_a_newer_minor_one() -> None:
    old = replace(ONE, cuda="13.0")

    assert bad(judged(old, TorchBuild("2.13.0", "13.2"), cpu_build=False)) == {}


@pytest.mark.parametrize(
    ("model", "enough"),
    [
        ({"replicas": 2}, False),
        ({"replicas": 2, "resources": {"num_gpus": 0.5}}, True),
        ({"engine_args": {"tensor_parallel_size": 2}}, False),
    ],
)
def test_gpus_are_counted_against_what_all_replicas_reserve(
    model: dict[str, Any], enough: bool
) -> None:
    found = judged(ONE, CUDA, False, service(**model))

    assert (found["count"].verdict is Verdict.OK) is enough


def test_hidden_gpus_do_not_count() -> None:
    found = judged(replace(ONE, visible=""), CUDA, cpu_build=False)

    assert found["count"].verdict is Verdict.PROBLEM
    assert "CUDA_VISIBLE_DEVICES" in found["count"].seen
    assert replace(ONE, visible="0").usable == replace(ONE, visible="GPU-abc").usable == (H200,)
    assert replace(ONE, visible="1").usable == replace(ONE, visible="-1").usable == ()


def test_memory_that_others_hold_is_a_problem_unless_less_is_asked_for() -> None:
    taken = replace(ONE, gpus=(replace(H200, used=70 * GIB),))

    found = judged(taken, CUDA, cpu_build=False)

    assert bad(found) == {"memory 0": Verdict.PROBLEM}
    assert "gpu_memory_utilization: 0.49" in found["memory 0"].remedy
    less = service(engine_args={"gpu_memory_utilization": 0.4})
    assert bad(judged(taken, CUDA, False, less)) == {}


def test_bfloat16_needs_a_gpu_that_has_it() -> None:
    old = replace(ONE, gpus=(replace(H200, name="V100", capability=7.0),))

    assert judged(old, CUDA, False, service(dtype="bfloat16"))["bfloat16"].remedy
    assert not judged(old, CUDA, False, service(dtype="float16"))["bfloat16"].remedy


def test_rows_of_nvidia_smi_are_read_and_anything_else_is_left_out() -> None:
    listed = (
        "0, NVIDIA H200, 143771, 2048, 580.65.06, 9.0\n"
        "1, Old, [N/A], [N/A], 580, 5.0\nwarning: infoROM is corrupted\n"
    )

    (gpu,) = parse_gpus(listed)

    assert (gpu.index, gpu.name, gpu.driver, gpu.capability) == (0, "NVIDIA H200", "580.65.06", 9.0)
    assert gpu.used == 2 * GIB


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", CPU),
        ("__version__ = '2.13.0'\ncuda: Optional[str] = '13.0'\n", CUDA),
        ("", None),
    ],
)
def test_torchs_build_is_read_from_its_text(text: str, build: TorchBuild | None) -> None:
    assert parse_torch(text) == build


def test_torch_of_this_environment_is_read_without_importing_it() -> None:
    assert read_torch() is not None


@pytest.mark.ray
@pytest.mark.parametrize(
    "model",
    [
        {},
        {"resources": {"device": "gpu"}},
        {"resources": {"device": "cpu"}},
        {"resources": {"num_gpus": 0.25}},
        {"resources": {"device": "gpu"}, "engine_args": {"tensor_parallel_size": 4}},
        {"resources": {"device": "gpu"}, "engine_args": {"pipeline_parallel_size": 2}},
    ],
)
def test_as_many_gpus_are_wanted_as_ray_will_reserve(model: dict[str, Any]) -> None:
    from jevserve.engine.environment import on_cpu
    from jevserve.serving.application import actor_options

    settings = ModelSettings(name="m", **model)

    assert gpus_wanted(settings, on_cpu()) == actor_options(settings)["num_gpus"]
