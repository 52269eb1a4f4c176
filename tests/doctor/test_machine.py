"""The machine: each fact of it judged both ways, and limits read as kernels write them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from jevserve.doctor.findings import GIB, MIB, Finding, Verdict
from jevserve.doctor.machine import (
    Limits,
    Machine,
    cpu_flags,
    judge_clock,
    judge_cores,
    judge_memory,
    judge_open_files,
    judge_processor,
    judge_shared_memory,
    judge_system,
    read_limits,
    read_machine,
)

GOOD = Machine(
    system="Linux",
    architecture="x86_64",
    libc="glibc 2.36",
    flags=frozenset({"avx2", "avx512f"}),
    cores=8,
    memory=16 * GIB,
    memory_available=12 * GIB,
    limits=Limits(),
    shared_memory=8 * GIB,
    open_files=1_048_576,
    now=2e9,
    installed=1.9e9,
)


def verdict(finding: Finding) -> Verdict:
    return finding.verdict


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Verdict.OK),
        ({"architecture": "aarch64"}, Verdict.OK),
        ({"architecture": "riscv64"}, Verdict.PROBLEM),
        ({"system": "Darwin"}, Verdict.PROBLEM),
    ],
)
def test_a_service_runs_on_linux_of_two_architectures(
    changes: dict[str, str], expected: Verdict
) -> None:
    assert verdict(judge_system(replace(GOOD, **changes))) is expected


@pytest.mark.parametrize(
    ("architecture", "flags", "cpu_build", "expected"),
    [
        ("x86_64", {"avx2"}, True, Verdict.OK),
        ("x86_64", {"sse4_2"}, True, Verdict.PROBLEM),
        ("x86_64", {"sse4_2"}, False, Verdict.OK),
        ("aarch64", {"asimd"}, True, Verdict.OK),
        ("aarch64", {"fp"}, True, Verdict.PROBLEM),
        ("x86_64", set(), True, Verdict.SKIPPED),
    ],
)
def test_the_cpu_build_of_vllm_needs_vector_instructions(
    architecture: str, flags: set[str], cpu_build: bool, expected: Verdict
) -> None:
    m = replace(GOOD, architecture=architecture, flags=frozenset(flags))

    assert verdict(judge_processor(m, cpu_build)) is expected


def test_more_threads_than_cores_are_named_with_how_many_fit() -> None:
    fits, many = judge_cores(GOOD, 8, 2), judge_cores(GOOD, 16, 2)

    assert (verdict(fits), verdict(many)) == (Verdict.OK, Verdict.WARNING)
    assert "num_cpus of the models to 4" in many.remedy


def test_a_containers_share_of_the_cores_counts_and_not_the_machines() -> None:
    m = replace(GOOD, cores=64, limits=Limits(cores=2.0))

    finding = judge_cores(m, 64, 1)

    assert verdict(finding) is Verdict.WARNING
    assert "2 of 64 cores" in finding.seen


@pytest.mark.parametrize(
    ("available", "limits", "needed", "expected"),
    [
        (12 * GIB, Limits(), 3 * GIB, Verdict.OK),
        (3 * GIB, Limits(), 2.9 * GIB, Verdict.WARNING),
        (3 * GIB, Limits(), 4 * GIB, Verdict.PROBLEM),
        (12 * GIB, Limits(2 * GIB, GIB), 3 * GIB, Verdict.PROBLEM),
        (12 * GIB, Limits(64 * GIB), 3 * GIB, Verdict.OK),
    ],
)
def test_memory_is_what_is_free_within_every_limit(
    available: int, limits: Limits, needed: float, expected: Verdict
) -> None:
    m = replace(GOOD, memory_available=available, limits=limits)

    assert verdict(judge_memory(m, int(needed), known=True)) is expected


def test_an_estimate_without_weights_says_so() -> None:
    assert "not known yet" in judge_memory(GOOD, GIB, known=False).seen


@pytest.mark.parametrize(
    ("free", "expected"),
    [(GIB, Verdict.OK), (64 * MIB, Verdict.WARNING), (None, Verdict.WARNING)],
)
def test_shared_memory_holds_rays_objects(free: int | None, expected: Verdict) -> None:
    assert verdict(judge_shared_memory(replace(GOOD, shared_memory=free))) is expected


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1_024, Verdict.PROBLEM), (8_208, Verdict.PROBLEM), (65_536, Verdict.OK), (-1, Verdict.OK)],
)
def test_haproxy_may_open_files_for_its_connections(limit: int, expected: Verdict) -> None:
    assert verdict(judge_open_files(replace(GOOD, open_files=limit))) is expected


def test_fewer_connections_need_fewer_files() -> None:
    assert verdict(judge_open_files(replace(GOOD, open_files=1_024), 400)) is Verdict.OK


def test_a_clock_before_the_installation_is_wrong() -> None:
    assert verdict(judge_clock(GOOD)) is Verdict.OK
    assert verdict(judge_clock(replace(GOOD, now=0.0))) is Verdict.WARNING


def test_features_are_read_by_the_name_that_each_architecture_gives_them() -> None:
    assert cpu_flags("processor\t: 0\nflags\t\t: fpu avx2\n") == {"fpu", "avx2"}
    assert cpu_flags("Features\t: fp asimd\n") == {"fp", "asimd"}
    assert cpu_flags("nonsense") == frozenset()


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_limits_of_cgroups_v2_are_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    write(tmp_path, cgroup__controllers="cpu memory")
    write(tmp_path / "a", memory__max=4 * GIB, memory__current=GIB, cpu__max="max 100000")
    write(tmp_path / "a" / "b", memory__max="max", cpu__max="150000 100000")
    write(tmp_path / "a", memory__stat=f"anon 1\ninactive_file {GIB // 4}")

    limits = read_limits(tmp_path, "0::/a/b\n")

    assert limits == Limits(4 * GIB, GIB - GIB // 4, 1.5)


def test_limits_of_cgroups_v1_are_read_too(tmp_path: Path) -> None:
    memory = tmp_path / "memory" / "pod"
    write(memory, memory__limit_in_bytes=2 * GIB, memory__usage_in_bytes=MIB)
    write(tmp_path / "cpu" / "pod", cpu__cfs_quota_us=50_000, cpu__cfs_period_us=100_000)
    write(tmp_path / "memory", memory__limit_in_bytes=9223372036854771712)

    limits = read_limits(tmp_path, "4:memory:/pod\n3:cpu,cpuacct:/pod\n")

    assert limits == Limits(2 * GIB, MIB, 0.5)


def test_without_cgroups_nothing_is_limited(tmp_path: Path) -> None:
    assert read_limits(tmp_path, "") == Limits()
    assert read_limits(tmp_path, "garbage:::\n") == Limits()


def test_this_machine_can_be_read() -> None:
    m = read_machine()

    assert m.system == "Linux"
    assert 1 <= m.cores <= (os.cpu_count() or 1)
    assert 0 < m.memory_available <= m.memory
