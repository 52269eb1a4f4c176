"""The machine: system, processor, cores, memory, shared memory, open files, clock."""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import jevserve
from jevserve.doctor.findings import MIB, Finding, ok, problem, size, skipped, warning

#: What ``jevserve serve`` asks of Ray for its object store.
OBJECT_STORE = 100 * MIB

#: Proportional set sizes of an idle service, measured with ``jev-embed`` on a CPU, rounded up:
#: command, Ray, Serve and HAProxy together; one router; one engine's two processes without
#: weights and prefix cache.
SERVICE_MEMORY, ROUTER_MEMORY, ENGINE_MEMORY = 800 * MIB, 200 * MIB, 1_100 * MIB

#: Ray Serve gives HAProxy this many connections unless RAY_SERVE_HAPROXY_MAXCONN is set, and
#: HAProxy 2.8 refuses to start unless it may open two files for each and a few of its own.
PROXY_CONNECTIONS, PROXY_OWN_FILES = 4_096, 32

#: From this many bytes on, a cgroup's limit means none (v1 writes a huge number for it).
NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class Limits:
    """What the control groups of this process allow: None where they allow everything."""

    memory: int | None = None
    memory_used: int = 0
    cores: float | None = None


@dataclass(frozen=True)
class Machine:
    """Facts of a machine; sizes in bytes, times as Unix times.

    Attributes:
        flags: names of the processor's features, as /proc/cpuinfo has them.
        cores: cores that this process may run on.
        shared_memory: free bytes of /dev/shm, None where there is none.
        open_files: the hard limit.
        installed: when jevserve's files were written.
    """

    system: str
    architecture: str
    libc: str
    flags: frozenset[str]
    cores: int
    memory: int
    memory_available: int
    limits: Limits
    shared_memory: int | None
    open_files: int
    now: float
    installed: float


def read_machine() -> Machine:
    import psutil  # type: ignore[import-untyped]

    memory = psutil.virtual_memory()
    return Machine(
        system=platform.system(),
        architecture=platform.machine(),
        libc=" ".join(platform.libc_ver()).strip(),
        flags=cpu_flags(_text(Path("/proc/cpuinfo"))),
        cores=len(os.sched_getaffinity(0)),
        memory=memory.total,
        memory_available=memory.available,
        limits=read_limits(Path("/sys/fs/cgroup"), _text(Path("/proc/self/cgroup"))),
        shared_memory=free_bytes(Path("/dev/shm")),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        now=time.time(),
        installed=Path(jevserve.__file__).stat().st_mtime,
    )


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Feature names of the first processor (``flags`` on x86, ``Features`` on arm)."""
    for line in cpuinfo.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def free_bytes(path: Path) -> int | None:
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def read_limits(root: Path, membership: str) -> Limits:
    """Limits of the cgroups (v2, else v1) that ``membership``, /proc/self/cgroup, names."""
    groups = dict(line.split(":", 2)[1:] for line in membership.splitlines() if line.count(":") > 1)
    if (root / "cgroup.controllers").exists():
        folders = _up(root, groups.get("", "/"))
        quotas = [_text(f / "cpu.max").split() for f in folders]
        limit, used = _tightest(folders, "memory.max", "memory.current", "inactive_file")
    else:
        folders = _up(root / "memory", groups.get("memory", "/"))
        quotas = [
            [_text(f / "cpu.cfs_quota_us").strip(), _text(f / "cpu.cfs_period_us").strip()]
            for f in _up(root / "cpu", groups.get("cpu,cpuacct", groups.get("cpu", "/")))
        ]
        limit, used = _tightest(
            folders, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        )
    cores = [
        int(q[0]) / int(q[1]) for q in quotas if len(q) == 2 and q[0].isdigit() and q[1].isdigit()
    ]
    return Limits(limit, used, min(cores, default=None))


def _up(root: Path, group: str) -> list[Path]:
    """The folder of a group and of those around it; inside a container only the root is there."""
    folder = root / group.lstrip("/")
    return [folder, *(p for p in folder.parents if p.is_relative_to(root))]


def _tightest(folders: list[Path], limit: str, used: str, cache: str) -> tuple[int | None, int]:
    """(lowest limit, bytes that count against it and cannot be given back)."""
    found: tuple[int | None, int] = (None, 0)
    for folder in folders:
        value = _text(folder / limit).strip()
        if value.isdigit() and int(value) < (NO_LIMIT if found[0] is None else found[0]):
            stat = dict(
                line.split() for line in _text(folder / "memory.stat").splitlines() if " " in line
            )
            taken = int(_text(folder / used).strip() or 0) - int(stat.get(cache, 0))
            found = (int(value), max(0, taken))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def judge_system(m: Machine) -> Finding:
    seen = f"{m.system} {m.architecture}" + (f", {m.libc}" if m.libc else "")
    if m.system != "Linux" or m.architecture not in ("x86_64", "aarch64"):
        return problem(
            "system",
            f"{seen}: Ray, vLLM and HAProxy are packaged for Linux on x86-64 and arm64 only",
            "run jevserve on a Linux machine, or in a Linux container or virtual machine",
        )
    return ok("system", seen)


def judge_processor(m: Machine, cpu_build: bool) -> Finding:
    """Whether the processor has what vLLM's CPU build is compiled for."""
    if not cpu_build:
        return ok("processor", "engines compute on GPUs, so any processor will do")
    if not m.flags:
        return skipped("processor", "/proc/cpuinfo does not name the processor's features")
    needed = {"x86_64": "avx2", "aarch64": "asimd"}.get(m.architecture)
    if needed and needed not in m.flags:
        return problem(
            "processor",
            f"no {needed}: vLLM's CPU build would end with 'illegal instruction'",
            "use a newer processor (a virtual machine may hide it: choose CPU type 'host'), or a "
            "GPU",
        )
    best = next((f for f in ("avx512_bf16", "avx512f", "avx2", "asimd") if f in m.flags), "")
    return ok("processor", f"{best}, which vLLM's CPU build has kernels for")


def judge_cores(m: Machine, threads: float, engines: int) -> Finding:
    """``threads``: what all ``engines`` together will run on a CPU."""
    quota = m.limits.cores
    usable = m.cores if quota is None else min(float(m.cores), quota)
    of = f"{m.cores} cores" if usable == m.cores else f"{usable:g} of {m.cores} cores"
    seen = f"{of} for {threads:g} threads of {engines} engine{'s' if engines > 1 else ''}"
    if threads > usable:
        each = max(1, int(usable // engines))
        return warning(
            "cores",
            f"{seen}: they will wait for each other, and answers get slower, not faster",
            f"set resources.num_cpus of the models to {each}, or serve fewer replicas",
        )
    return ok("cores", seen)


def judge_memory(m: Machine, needed: int, known: bool) -> Finding:
    """``needed``: bytes of the whole service; ``known`` is False where some weights are unknown."""
    free, of = m.memory_available, f"{size(m.memory)} of memory"
    if m.limits.memory is not None and m.limits.memory - m.limits.memory_used < free:
        free, of = (
            m.limits.memory - m.limits.memory_used,
            f"the container's limit of {size(m.limits.memory)}",
        )
    seen = f"{size(free)} free of {of}; about {size(needed)} needed"
    if not known:
        seen += ", and more for weights whose size is not known yet"
    if needed > free:
        return problem(
            "memory",
            f"{seen}: the kernel would kill an engine while it loads",
            "free memory, raise the container's limit, lower kv_cache_gib, or serve fewer replicas",
        )
    if needed > 0.85 * free:
        return warning("memory", f"{seen}: little is left", "free some, or lower kv_cache_gib")
    return ok("memory", seen)


def judge_shared_memory(m: Machine) -> Finding:
    if m.shared_memory is None:
        return warning(
            "shared memory",
            "/dev/shm is missing: Ray keeps its objects in files under /tmp instead",
            "mount a tmpfs at /dev/shm (docker run --shm-size=1g)",
        )
    seen = f"{size(m.shared_memory)} free in /dev/shm; Ray takes {size(OBJECT_STORE)}"
    if m.shared_memory < OBJECT_STORE:
        return warning(
            "shared memory",
            f"{seen}: it keeps its objects in files under /tmp instead",
            "make it larger: docker run --shm-size=1g; in Kubernetes an emptyDir with medium: "
            "Memory at /dev/shm",
        )
    return ok("shared memory", seen)


def judge_open_files(m: Machine, connections: int = PROXY_CONNECTIONS) -> Finding:
    needed = 2 * connections + PROXY_OWN_FILES
    unlimited = m.open_files in (-1, resource.RLIM_INFINITY)
    seen = f"{'any number' if unlimited else f'{m.open_files:,}'} allowed, HAProxy needs {needed:,}"
    if not unlimited and m.open_files < needed:
        return problem(
            "open files",
            f"{seen}: it would refuse to start",
            f"raise the hard limit to {needed:,} or more (ulimit -Hn, LimitNOFILE= in systemd, "
            "docker run --ulimit nofile=65536:65536), or lower RAY_SERVE_HAPROXY_MAXCONN",
        )
    return ok("open files", seen)


def judge_clock(m: Machine) -> Finding:
    seen = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(m.now))
    # A day of grace: archives and images carry times of other zones.
    if m.now < m.installed - 86_400:
        return warning(
            "clock",
            f"{seen} is before jevserve was installed: certificates will look invalid",
            "set the clock, or start a time service (chrony, systemd-timesyncd)",
        )
    return ok("clock", seen)
