"""GPUs: whether the driver, torch's build and the settings fit together."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from jevserve.doctor.findings import MIB, Finding, ok, problem, size, skipped, warning
from jevserve.settings import ModelSettings, ServiceSettings

#: Share of a GPU's memory that vLLM 0.29 takes unless ``gpu_memory_utilization`` says otherwise.
UTILIZATION = 0.92

#: Compute capability from which GPUs have bfloat16.
BFLOAT16 = 8.0

QUERY = "index,name,memory.total,memory.used,driver_version,compute_cap"
SMI_LIMIT_S = 10

CPU_INSTALL = "make setup DEVICE=cpu, or pip install 'jevserve[cpu]' into a new environment"
GPU_INSTALL = "make setup DEVICE=gpu, or pip install 'jevserve[gpu]' into a new environment"


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it; memory in bytes."""

    index: int
    name: str
    total: int
    used: int
    driver: str
    capability: float


@dataclass(frozen=True)
class Gpus:
    """What can be seen of GPUs without loading any library of theirs.

    Attributes:
        smi: whether nvidia-smi is installed.
        error: what it said where it failed.
        cuda: newest CUDA that the driver can run, such as ``12.4``; empty where unknown.
        module: whether the kernel has NVIDIA's driver loaded.
        visible: value of CUDA_VISIBLE_DEVICES, None where it is not set.
    """

    smi: bool = False
    error: str = ""
    gpus: tuple[Gpu, ...] = ()
    cuda: str = ""
    module: bool = False
    visible: str | None = None

    @property
    def usable(self) -> tuple[Gpu, ...]:
        """GPUs that CUDA_VISIBLE_DEVICES leaves: by index, or by count where it names ids."""
        if self.visible is None:
            return self.gpus
        names = [v.strip() for v in self.visible.split(",") if v.strip()]
        if all(n.isdigit() for n in names):
            return tuple(g for g in self.gpus if str(g.index) in names)
        return () if "-1" in names else self.gpus[: len(names)]


@dataclass(frozen=True)
class TorchBuild:
    """torch's version and the CUDA it is built for, None for a CPU build."""

    version: str
    cuda: str | None


def read_gpus(environment: Mapping[str, str]) -> Gpus:
    module = Path("/proc/driver/nvidia/version").exists()
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return Gpus(module=module, visible=visible)
    try:
        listed, page = (
            subprocess.run(
                [smi, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=SMI_LIMIT_S,
                check=False,
            )
            for arguments in ([f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"], [])
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Gpus(smi=True, error=type(error).__name__, module=module, visible=visible)
    gpus = tuple(parse_gpus(listed.stdout)) if listed.returncode == 0 else ()
    said = "" if gpus else " ".join(listed.stdout.split())[:200] or "lists no GPU"
    found = re.search(r"CUDA Version: *(\d+\.\d+)", page.stdout)
    return Gpus(True, said, gpus, found[1] if found else "", module, visible)


def parse_gpus(listed: str) -> list[Gpu]:
    """Rows of ``nvidia-smi --query-gpu``; what is not one is left out."""
    found = []
    for line in listed.splitlines():
        parts = [p.strip() for p in line.split(",")]
        if len(parts) == 6 and parts[0].isdigit() and parts[2].isdigit() and parts[3].isdigit():
            capability = float(parts[5]) if re.fullmatch(r"\d+\.\d+", parts[5]) else math.inf
            total, used = int(parts[2]) * MIB, int(parts[3]) * MIB
            found.append(Gpu(int(parts[0]), parts[1], total, used, parts[4], capability))
    return found


def read_torch() -> TorchBuild | None:
    """Read from the text of torch/version.py: importing torch may be what goes wrong."""
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        text = (Path(spec.submodule_search_locations[0]) / "version.py").read_text()
    except OSError:
        return None
    return parse_torch(text)


def parse_torch(version_file: str) -> TorchBuild | None:
    version = re.search(r"^__version__[^=]*= *['\"]([^'\"]+)", version_file, re.M)
    cuda = re.search(r"^cuda\b[^=]*= *['\"]([^'\"]+)", version_file, re.M)
    return TorchBuild(version[1], cuda[1] if cuda else None) if version else None


def gpus_wanted(model: ModelSettings, cpu_build: bool) -> float:
    """GPUs that Ray will reserve for one replica, by the rule of ``serving.application``."""
    resources = model.resources
    if resources.num_gpus is not None:
        return resources.num_gpus
    if resources.device == "cpu" or (resources.device == "auto" and cpu_build):
        return 0.0
    sizes = [model.engine_args.get(f"{way}_parallel_size", 1) for way in ("tensor", "pipeline")]
    return float(math.prod(s for s in sizes if isinstance(s, int)))


def judge(
    gpus: Gpus, torch: TorchBuild | None, cpu_build: bool, settings: ServiceSettings | None
) -> list[Finding]:
    models = settings.models if settings else ()
    wanted = sum(m.replicas * gpus_wanted(m, cpu_build) for m in models)
    if settings is None:
        wanted = 0.0 if cpu_build else 1.0
    build = judge_build(gpus, torch, cpu_build, wanted)
    if not wanted or cpu_build:
        return [build]
    return [
        build,
        judge_driver(gpus, torch),
        judge_count(gpus, wanted),
        *(judge_memory(g, utilization(models)) for g in gpus.usable),
        *judge_dtypes(gpus, models),
    ]


def judge_build(gpus: Gpus, torch: TorchBuild | None, cpu_build: bool, wanted: float) -> Finding:
    """Whether what is installed is for the device that will be used."""
    there = ", ".join(sorted({g.name for g in gpus.gpus}))
    if torch is None:
        return problem("build", "torch is not installed", f"install jevserve: {CPU_INSTALL}")
    if cpu_build and wanted:
        return problem(
            "build",
            f"the settings ask for {wanted:g} GPU(s), but vLLM's CPU build is installed",
            f"on a machine with a GPU: {GPU_INSTALL}; or set resources.device: cpu",
        )
    if cpu_build and gpus.gpus:
        return warning(
            "build",
            f"{there} is there, but vLLM's CPU build is installed and will not use it",
            f"to use it: {GPU_INSTALL}",
        )
    if cpu_build:
        return ok("build", f"CPU build of vLLM, torch {torch.version}; no GPU is used")
    if torch.cuda is None:
        return problem(
            "build",
            f"vLLM's CUDA build is installed with torch {torch.version}, which is a CPU build",
            GPU_INSTALL,
        )
    return ok("build", f"torch {torch.version} for CUDA {torch.cuda}")


def judge_driver(gpus: Gpus, torch: TorchBuild | None) -> Finding:
    """The driver, which must be there and must know the major version of torch's CUDA."""
    needed = torch.cuda if torch else None
    if not gpus.gpus:
        if gpus.smi:
            return problem(
                "driver",
                f"nvidia-smi fails: {gpus.error}",
                "load the driver again (reboot after an update of it), and check 'dmesg | grep "
                "-i nvrm'",
            )
        if gpus.module:
            return problem(
                "driver",
                "the kernel has NVIDIA's driver, but its tools and libraries are not in here",
                "start the container with GPUs: docker run --gpus all with the NVIDIA Container "
                "Toolkit; in Kubernetes a limit of nvidia.com/gpu",
            )
        return problem(
            "driver",
            "no NVIDIA driver (nvidia-smi is not there), but vLLM's CUDA build is installed",
            f"install the driver, or use the CPU: {CPU_INSTALL}",
        )
    driver = gpus.gpus[0].driver
    seen = f"driver {driver}" + (f", up to CUDA {gpus.cuda}" if gpus.cuda else "")
    if needed and gpus.cuda and int(gpus.cuda.split(".")[0]) < int(needed.split(".")[0]):
        return problem(
            "driver",
            f"{seen}: too old for torch, which is built for CUDA {needed}",
            f"install a driver for CUDA {needed.split('.')[0]} or newer on the host",
        )
    return ok("driver", seen)


def judge_count(gpus: Gpus, wanted: float) -> Finding:
    n = len(gpus.usable)
    hidden = f" ({len(gpus.gpus) - n} hidden by CUDA_VISIBLE_DEVICES)" if n < len(gpus.gpus) else ""
    seen = f"{n} GPU{'' if n == 1 else 's'}{hidden}, {wanted:g} wanted"
    if n < wanted:
        return problem(
            "count",
            f"{seen}: replicas without a GPU would wait for one forever",
            "lower replicas, tensor_parallel_size or resources.num_gpus (a fraction shares a GPU)",
        )
    return ok("count", seen)


def utilization(models: tuple[ModelSettings, ...]) -> float:
    """The largest share of a GPU that an engine of these will take."""
    asked = [m.engine_args.get("gpu_memory_utilization", UTILIZATION) for m in models]
    return max((float(a) for a in asked if isinstance(a, int | float)), default=UTILIZATION)


def judge_memory(gpu: Gpu, share: float) -> Finding:
    check, free = f"memory {gpu.index}", gpu.total - gpu.used
    seen = f"{gpu.name}: {size(free)} of {size(gpu.total)} free, vLLM takes {share:.0%} of all"
    if free < share * gpu.total:
        fits = max(0.0, math.floor(100 * free / gpu.total - 1) / 100)
        return problem(
            check,
            f"{seen} and would refuse to start",
            "stop what uses it ('nvidia-smi' lists it), or set engine_args: "
            f"{{gpu_memory_utilization: {fits:.2f}}}",
        )
    return ok(check, seen)


def judge_dtypes(gpus: Gpus, models: tuple[ModelSettings, ...]) -> list[Finding]:
    weak = [g for g in gpus.usable if g.capability < BFLOAT16]
    if not weak:
        return []
    asked = [m.name for m in models if m.dtype == "bfloat16"]
    if not asked:
        return [skipped("bfloat16", f"{weak[0].name} has none; no model is set to it")]
    return [
        problem(
            "bfloat16",
            f"{weak[0].name} has no bfloat16, which {', '.join(asked)} asks for",
            "set dtype: float16, or float32",
        )
    ]
