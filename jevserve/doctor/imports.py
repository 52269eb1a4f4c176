"""Importing what a start imports, in a process of its own: whatever happens there is a finding."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jevserve.doctor.findings import Finding, ok, problem, skipped
from jevserve.doctor.gpu import CPU_INSTALL, GPU_INSTALL

#: Seconds for one process: importing vLLM has taken half a minute on two busy cores.
LIMIT_S = 180.0

#: Bytes that are read of what a probe wrote.
MAX_OUTPUT = 2**20


@dataclass(frozen=True)
class Outcome:
    """How a probe's process ended.

    Attributes:
        lines: what it reported, as ``probe`` writes it.
        code: exit status, negative for a signal; None where the time was up.
        said: the end of its standard error.
        seconds: how long it took.
    """

    lines: tuple[dict[str, Any], ...]
    code: int | None
    said: str = ""
    seconds: float = 0.0

    def facts(self, step: str) -> dict[str, Any] | None:
        """What a step found, None where it did not end well."""
        for line in self.lines:
            if line.get("done") == step:
                facts = line.get("facts")
                return facts if isinstance(facts, dict) else {}
        return None

    def failure(self, step: str) -> str | None:
        """The error of a step that raised one."""
        for line in self.lines:
            if line.get("failed") == step:
                return str(line.get("error"))
        return None

    @property
    def unfinished(self) -> str | None:
        """The step that the process was in when it ended."""
        if not self.lines:
            return None
        last = self.lines[-1].get("begin")
        return str(last) if last else None


class Probe:
    """A started process of ``jevserve.doctor.probe``. Leaving the ``with`` block kills it."""

    def __init__(
        self,
        steps: Sequence[str],
        given: object = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._began = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(
            prefix="jevserve-doctor-", ignore_cleanup_errors=True
        )
        given_file, self._out, self._err = (
            Path(self._folder.name) / name for name in ("given", "out", "err")
        )
        given_file.write_text(json.dumps(given))
        # Files, not pipes: nobody reads while the process runs.
        with given_file.open() as stdin, self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                # -P: the folder that the user happens to be in may hold a folder "vllm".
                [sys.executable, "-P", "-m", "jevserve.doctor.probe", *steps],
                stdin=stdin,
                stdout=out,
                stderr=err,
                env=with_this_package(os.environ if environment is None else environment),
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The whole group: an engine has children.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._folder.cleanup()

    def wait(self, limit_s: float = LIMIT_S) -> Outcome:
        """What it reported, once it has ended or has run for ``limit_s`` seconds."""
        left = max(0.1, self._began + limit_s - time.monotonic())
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(left)
        return Outcome(
            tuple(parse(tail(self._out))), code, tail(self._err), time.monotonic() - self._began
        )


def tail(path: Path) -> str:
    """The end of a file, as text."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - MAX_OUTPUT))
        return stream.read(MAX_OUTPUT).decode(errors="replace")


def parse(output: str) -> list[dict[str, Any]]:
    """The reports in a probe's output; anything else that was printed is left out."""
    found = []
    for line in output.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(line)
            if isinstance(value, dict):
                found.append(value)
    return found


def judge_import(step: str, outcome: Outcome) -> Finding:
    """The finding for one step of a probe."""
    facts = outcome.facts(step)
    if facts is not None:
        seconds = facts.get("seconds")
        took = f" in {seconds:.1f} s" if isinstance(seconds, float) else ""
        return ok(step, f"imported{took}")
    error = outcome.failure(step)
    if error is not None:
        seen, remedy = explain(step, error)
        return problem(step, seen, remedy)
    if outcome.unfinished != step:
        if outcome.lines:
            return skipped(step, "what it needs could not be imported")
        seen = f"the probe ended at once: {last_line(outcome.said)}"
        return problem(step, seen, f"check that {sys.executable} works")
    if outcome.code is None:
        return problem(
            step,
            f"importing it had not ended after {outcome.seconds:.0f} s",
            "look for a slow or hanging disk (NFS?), a stuck GPU driver (does nvidia-smi answer?), "
            f"or swapping; try by hand: {sys.executable} -X importtime -c 'import {module(step)}'",
        )
    seen, remedy = explain_signal(-outcome.code if outcome.code < 0 else 0)
    return problem(step, f"importing it {seen}", remedy)


def module(step: str) -> str:
    return {"kernels": "vllm", "driver library": "torch"}.get(step, step)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines or ["it said nothing"])[-1][:300]


#: How the process may be ended by the system, and what that means while importing.
SIGNALS = {
    signal.SIGILL: (
        "ended with 'illegal instruction': it is compiled for a newer processor",
        "use a machine whose processor has AVX2 (a virtual machine: CPU type 'host'), or other "
        "builds of torch and vLLM",
    ),
    signal.SIGSEGV: (
        "crashed (segmentation fault): compiled parts do not fit each other or this system",
        "install everything anew, in a new environment: make clean setup",
    ),
    signal.SIGBUS: (
        "crashed (bus error): a file of it is cut short, or /dev/shm is full",
        "free the disk and /dev/shm, then install it anew: make clean setup",
    ),
    signal.SIGKILL: (
        "was killed, most likely because memory ran out",
        "free memory, or raise the container's memory limit",
    ),
    signal.SIGABRT: (
        "aborted itself",
        "install everything anew, in a new environment: make clean setup",
    ),
}


def explain_signal(number: int) -> tuple[str, str]:
    """(what happened, remedy) for a process that a signal ended; 0 is an exit of its own."""
    for known, words in SIGNALS.items():
        if known == number:
            return words
    how = f"was ended by signal {number}" if number else "ended the process"
    return how, "install everything anew, in a new environment: make clean setup"


#: CUDA's own libraries, which come as Python packages with torch's CUDA build.
CUDA_LIBRARIES = r"lib(cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|cusparseLt|nccl|nvrtc|nvJitLink|cupti|nvToolsExt|nvshmem_host|cufile)"  # noqa: E501


def explain(step: str, error: str) -> tuple[str, str]:
    """(what is wrong, remedy) for the error of an import, by the texts that loaders give."""
    library = re.search(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file", error)
    if library:
        name = library[1]
        if name.startswith(("libcuda.so", "libnvidia")):
            return (
                f"{name} is missing: it belongs to NVIDIA's driver",
                "install the driver on the host; in a container: docker run --gpus all with the "
                f"NVIDIA Container Toolkit. Without a GPU: {CPU_INSTALL}",
            )
        if re.match(CUDA_LIBRARIES, name):
            return (
                f"{name} is missing: a CUDA library, which this build of {module(step)} needs",
                f"with a GPU: {GPU_INSTALL}. Without: {CPU_INSTALL}",
            )
        if name.startswith(("libtorch", "libc10")):
            return (
                f"{name} is missing: torch's own, so torch is incomplete or of another build",
                "install everything anew, in a new environment: make clean setup",
            )
        package = re.match(r"lib([a-zA-Z0-9_+-]+?)[-.\d]*\.so", name)
        debian = {"numa": "libnuma1", "gomp": "libgomp1", "GL": "libgl1", "stdc++": "libstdc++6"}
        wanted = debian.get(package[1]) if package else None
        hint = f"apt install {wanted}" if wanted else f"find its package: apt-file search {name}"
        return f"{name} is missing: a library of the system", f"install it ({hint})"
    glibc = re.search(r"version `(GLIBC(?:XX)?_[\d.]+)' not found", error)
    if glibc:
        return (
            f"this system is too old: it has no {glibc[1]}",
            "use a newer distribution (Debian 12, Ubuntu 22.04, RHEL 9 or later) or container",
        )
    if "undefined symbol" in error:
        symbol = error.split("undefined symbol", 1)[1].strip(" :")[:80]
        return (
            f"its compiled part wants {symbol}, which torch does not have: builds do not match",
            "install torch and vLLM together, in a new environment: make clean setup",
        )
    if "cannot allocate memory in static TLS block" in error:
        return (
            "a library was loaded too late (static TLS)",
            "unset LD_PRELOAD, or upgrade glibc",
        )
    if "driver" in error.lower() and "cuda" in error.lower():
        return f"{short(error)}", "install a newer NVIDIA driver on the host"
    missing = re.search(r"No module named '([\w.]+)'", error)
    if missing:
        return (
            f"the module {missing[1]} is missing",
            "install everything again: make setup",
        )
    if "No space left on device" in error:
        return "the disk is full", "free space on the disk that holds the home folder and /tmp"
    if "Permission denied" in error:
        return short(error), "fix the permissions, or run as the user who installed jevserve"
    return (
        f"cannot be imported: {short(error)}",
        "install everything anew, in a new environment: make clean setup",
    )


def short(error: str) -> str:
    return textwrap.shorten(error, 300, placeholder=" …")


def with_this_package(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a probe, which must run the very code that is running now."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (environment.get("PYTHONPATH", ""), root)))
    # Crashes in compiled code then say where.
    return dict(environment) | {"PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}
