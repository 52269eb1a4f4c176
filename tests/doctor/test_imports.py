"""Imports that fail, hang or crash are findings: by real loader errors in real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from jevserve.doctor.findings import Verdict
from jevserve.doctor.imports import Outcome, Probe, explain, explain_signal, judge_import, parse


@pytest.mark.parametrize(
    ("error", "seen", "remedy"),
    [
        (
            "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
            "libcuda.so.1 is missing: it belongs to NVIDIA's driver",
            "install the driver",
        ),
        (
            "OSError: libcudart.so.12: cannot open shared object file: No such file or directory",
            "libcudart.so.12 is missing: a CUDA library",
            "DEVICE=cpu",
        ),
        (
            "ImportError: libcublasLt.so.13: cannot open shared object file: No such file",
            "a CUDA library",
            "DEVICE=gpu",
        ),
        (
            "ImportError: libtorch_cuda.so: cannot open shared object file: No such file",
            "torch's own",
            "anew",
        ),
        (
            "ImportError: libnuma.so.1: cannot open shared object file: No such file",
            "a library of the system",
            "apt install libnuma1",
        ),
        (
            "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found "
            "(required by /venv/torch/lib/libtorch.so)",
            "too old: it has no GLIBC_2.34",
            "newer distribution",
        ),
        (
            "ImportError: libstdc++.so.6: version `GLIBCXX_3.4.30' not found",
            "GLIBCXX_3.4.30",
            "newer distribution",
        ),
        (
            "ImportError: /venv/vllm/_C.abi3.so: undefined symbol: _ZN3c106detail14torchCheckFail",
            "builds do not match",
            "together",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12040). "
            "Please update your GPU driver; CUDA",
            "too old",
            "newer NVIDIA driver",
        ),
        ("ModuleNotFoundError: No module named 'torch'", "module torch is missing", "make setup"),
        ("OSError: [Errno 28] No space left on device", "disk is full", "free space"),
        ("ImportError: something new", "cannot be imported: ImportError: something new", "anew"),
    ],
)
def test_what_loaders_say_is_said_in_plain_words_with_a_remedy(
    error: str, seen: str, remedy: str
) -> None:
    told, what_to_do = explain("torch", error)

    assert seen in told
    assert remedy in what_to_do


@pytest.mark.parametrize(
    ("number", "seen"),
    [
        (signal.SIGILL, "illegal instruction"),
        (signal.SIGSEGV, "segmentation fault"),
        (signal.SIGKILL, "memory ran out"),
        (signal.SIGBUS, "/dev/shm"),
        (signal.SIGTERM, "signal 15"),
        (0, "ended the process"),
    ],
)
def test_what_signals_mean_while_importing(number: int, seen: str) -> None:
    told, remedy = explain_signal(number)

    assert seen in told
    assert remedy


def fake(folder: Path, body: str) -> dict[str, str]:
    """An environment in which ``import torch`` runs ``body``."""
    folder.mkdir(exist_ok=True)
    (folder / "torch.py").write_text(body)
    return dict(os.environ) | {"PYTHONPATH": str(folder)}


def started(folder: Path, body: str) -> Probe:
    return Probe(["torch", "driver library"], None, fake(folder, body))


def outcome(folder: Path, body: str) -> Outcome:
    with started(folder, body) as probe:
        return probe.wait()


def test_a_missing_gpu_library_is_named(tmp_path: Path) -> None:
    error = "libcudart.so.12: cannot open shared object file: No such file or directory"

    result = outcome(tmp_path, f"raise ImportError({error!r})")

    finding = judge_import("torch", result)
    assert finding.verdict is Verdict.PROBLEM
    assert "libcudart.so.12 is missing" in finding.seen
    assert judge_import("driver library", result).verdict is Verdict.SKIPPED


def test_a_library_that_a_real_loader_does_not_find_is_named(tmp_path: Path) -> None:
    result = outcome(tmp_path, "import ctypes; ctypes.CDLL('libcuda-not-here.so.1')")

    assert "libcuda-not-here.so.1 is missing" in judge_import("torch", result).seen


@pytest.mark.parametrize("number", [signal.SIGILL, signal.SIGSEGV, signal.SIGKILL])
def test_a_crashing_import_is_a_finding(tmp_path: Path, number: signal.Signals) -> None:
    result = outcome(tmp_path, f"import os; os.kill(os.getpid(), {int(number)})")

    finding = judge_import("torch", result)
    assert finding.verdict is Verdict.PROBLEM
    assert explain_signal(number)[0] in finding.seen


def test_a_hanging_import_ends_with_its_time_and_leaves_no_process(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    body = (
        "import os, pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(tmp_path / 'new')!r}).write_text(str(child.pid))\n"
        f"os.rename({str(tmp_path / 'new')!r}, {str(pid_file)!r})\n"
        "child.wait()\n"
    )

    with started(tmp_path, body) as probe:
        while not pid_file.exists():
            time.sleep(0.02)
        result = probe.wait(0.0)

    finding = judge_import("torch", result)
    assert finding.verdict is Verdict.PROBLEM
    assert "had not ended" in finding.seen
    stat = Path(f"/proc/{pid_file.read_text()}/stat")
    with contextlib.suppress(OSError):  # it is gone
        while stat.read_text().split()[2] != "Z":  # the kernel takes its time
            time.sleep(0.02)


def test_an_import_that_leaves_the_process_is_a_finding(tmp_path: Path) -> None:
    finding = judge_import("torch", outcome(tmp_path, "import os; os._exit(0)"))

    assert finding.verdict is Verdict.PROBLEM
    assert "ended the process" in finding.seen


def test_what_an_import_prints_is_no_report(tmp_path: Path) -> None:
    body = (
        "print('{\"done\": \"vllm\"}')\nimport os; os.write(1, b'noise\\n')\n"
        "class version: cuda = None\n__version__ = '2'\n"
    )

    result = outcome(tmp_path, body)

    assert result.facts("torch") is not None
    assert result.facts("vllm") is None
    assert judge_import("torch", result).verdict is Verdict.OK
    assert judge_import("driver library", result).verdict is Verdict.OK


def test_reports_are_read_from_among_anything() -> None:
    assert parse('x\n{"begin": "a"}\n[1]\n{"b\n' + "[" * 100_000) == [{"begin": "a"}]


def test_a_probe_that_does_not_even_start_is_a_finding() -> None:
    finding = judge_import("torch", Outcome((), 1, "Fatal Python error: no filesystem encoding\n"))

    assert finding.verdict is Verdict.PROBLEM
    assert "no filesystem encoding" in finding.seen
