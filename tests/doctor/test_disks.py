"""Disks: full ones, read-only ones, and folders that are none."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jevserve.doctor.disks import (
    Disk,
    examine,
    judge_disk,
    judge_ray_disk,
    judge_socket_paths,
    read_disk,
)
from jevserve.doctor.findings import GIB, MIB, Verdict

ROOMY = Disk(Path("/data/cache"), Path("/data"), True, True, 100 * GIB, 50 * GIB, 1_000_000)


def test_a_disk_with_room_is_fine() -> None:
    assert judge_disk("cache", ROOMY, GIB, "--cache").verdict is Verdict.OK


def test_a_full_disk_is_named_with_what_is_needed_and_what_is_free() -> None:
    finding = judge_disk("cache", replace(ROOMY, free=30 * MIB), 200 * MIB, "choose --cache")

    assert finding.verdict is Verdict.PROBLEM
    assert "full: 30 MiB free at /data/cache, 200 MiB needed" in finding.seen
    assert "free 170 MiB" in finding.remedy
    assert "choose --cache" in finding.remedy


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"files": 3}, "inodes"),
        ({"writable": False}, "may not be written"),
    ],
)
def test_a_disk_without_inodes_or_permission_is_a_problem(
    changes: dict[str, Any], seen: str
) -> None:
    finding = judge_disk("cache", replace(ROOMY, **changes), GIB, "x")

    assert finding.verdict is Verdict.PROBLEM
    assert seen in finding.seen


def test_a_file_system_that_does_not_count_files_has_enough() -> None:
    assert judge_disk("cache", replace(ROOMY, files=None), GIB, "x").verdict is Verdict.OK


def test_a_file_in_the_place_of_the_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")

    finding = judge_disk("cache", read_disk(tmp_path / "cache" / "sub"), GIB, "x")

    assert finding.verdict is Verdict.PROBLEM
    assert "not a folder" in finding.seen


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path: Path) -> None:
    disk = read_disk(tmp_path / "not" / "yet")

    assert disk.existing == tmp_path
    assert disk.writable
    assert disk.total >= disk.free > 0


def test_ray_warns_on_a_nearly_full_disk_that_would_still_do() -> None:
    assert judge_ray_disk(ROOMY).verdict is Verdict.OK
    assert judge_ray_disk(replace(ROOMY, free=3 * GIB)).verdict is Verdict.WARNING
    assert judge_ray_disk(replace(ROOMY, free=MIB)).verdict is Verdict.PROBLEM


def test_sockets_need_short_paths() -> None:
    long = Path("/" + "x" * 90)

    assert judge_socket_paths(Path("/tmp/ray"), Path("/tmp")).verdict is Verdict.OK
    assert "RAY_TMPDIR" in judge_socket_paths(long, Path("/tmp")).remedy
    assert "set TMPDIR" in judge_socket_paths(Path("/tmp/ray"), long).remedy


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A real file system of one MiB, full."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    return folder


def test_a_disk_that_really_is_full_is_found(small_disk: Path) -> None:
    try:
        (small_disk / "filler").write_bytes(b"x" * MIB)

        findings = examine(small_disk / "cache", 16 * MIB, {"RAY_TMPDIR": str(small_disk)})

        found = {f.check: f for f in findings}
        assert found["cache"].verdict is found["ray"].verdict is Verdict.PROBLEM
        assert "0 MiB free" in found["cache"].seen
        assert found["home"].verdict is Verdict.OK
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)
