"""Every check, in order, with the facts that it needs; none of them can crash the others."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jevserve.adapters.registry import find
from jevserve.checkpoints.cache import cache_root
from jevserve.checkpoints.tokenizer import FileTokenizer
from jevserve.doctor import (
    disks,
    gpu,
    keys,
    machine,
    models,
    packages,
    ports,
    processes,
    reuse,
    service,
)
from jevserve.doctor import settings as settings_checks
from jevserve.doctor.engines import EngineCache, described
from jevserve.doctor.findings import GIB, Finding, problem, skipped, warning
from jevserve.doctor.imports import Probe, judge_import, short
from jevserve.doctor.layout import read_layout
from jevserve.doctor.models import Checked
from jevserve.doctor.rehearsal import rehearse_apart
from jevserve.engine.environment import on_cpu
from jevserve.errors import SettingsError
from jevserve.serving.local import with_local_resources
from jevserve.settings import ModelSettings, ServiceSettings

#: Seconds for a real engine to start and answer.
TRIAL_S = 420.0

DRIVER = "driver library"
ENGINE_STEPS = ("torch", DRIVER, "vllm", "kernels", "engines")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What is to be judged.

    Attributes:
        settings: of the start, or why there are none.
        file: the settings file that was named.
        offline: nothing is asked over the network.
        quick: nothing heavy is imported.
        engine: engines are started and asked.
    """

    settings: ServiceSettings | SettingsError
    file: Path | None = None
    offline: bool = False
    quick: bool = False
    engine: bool = False


@dataclass
class Report:
    """Findings by subject, in the order in which they were made."""

    subjects: dict[str, list[Finding]] = field(default_factory=dict)

    def add(self, subject: str, make: Callable[[], Iterable[Finding]]) -> None:
        """Run a check; one that raises is a finding too."""

        def put(finding: Finding) -> None:
            self.subjects.setdefault(subject, []).append(finding)

        try:
            for finding in make():
                put(finding)
        except Exception as error:
            put(failed(error))

    def __iter__(self) -> Iterator[tuple[str, Finding]]:
        for subject, findings in self.subjects.items():
            for finding in findings:
                yield subject, finding


def failed(error: Exception) -> Finding:
    """What a check that raised says: where, and what kind of error, but not its text.

    The text could quote a file that holds secrets.
    """
    at = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(at.filename).name}:{at.lineno}"
    return warning(
        "a check",
        f"failed itself ({type(error).__name__} in {where}), so nothing is known here",
        "go on without it, and report it with the version of jevserve",
    )


def examine_service(url: str, key: str | None) -> Report:
    """A running service alone."""
    report = Report()
    report.add("service", lambda: service.examine(url, key))
    return report


def examine(wish: Wish, say: Say) -> Report:
    """What ``jevserve serve`` with these settings would meet on this machine."""
    report = Report()
    with ExitStack() as stack:
        Examination(wish, say, report, stack).run()
    return report


class Examination:
    """One run of all checks. Slow processes start early and are waited for at the end."""

    def __init__(self, wish: Wish, say: Say, report: Report, stack: ExitStack) -> None:
        self.wish, self.say, self.stack, self.add = wish, say, stack, report.add
        self.environment = dict(os.environ)
        self.on_cpu = on_cpu()
        given = wish.settings
        self.settings = None if isinstance(given, SettingsError) else with_local_resources(given)
        self.models: list[Checked] = []
        self.running: dict[int, processes.Process] = {}
        self.probes: list[tuple[Sequence[str], Probe]] = []
        self.caches: dict[str, Any] = {}

    def run(self) -> None:
        if not self.wish.quick:
            self.say("importing Ray, torch and vLLM in processes of their own")
            self.add("imports", self.start_ray)
        self.add("settings", self.about_settings)
        self.add("models", self.about_models)
        if not self.wish.quick:
            self.add("imports", self.start_engines)
        self.add("machine", self.about_machine)
        self.add("disk", self.about_disks)
        self.add("gpu", self.about_gpus)
        self.add("packages", lambda: packages.examine(self.on_cpu))
        self.add("ray", self.about_ray)
        self.add("ports", self.about_ports)
        self.add("imports", self.about_imports)
        for checked in self.models:
            self.add("cache reuse", partial(self.about_reuse, checked))
        self.add("cache reuse", self.about_scope)
        if self.wish.engine:
            for checked in self.models:
                self.add("cache reuse", partial(self.about_trial, checked))

    def start_ray(self) -> Iterator[Finding]:
        return self.start("Ray", ["ray"], None)

    def start_engines(self) -> Iterator[Finding]:
        given = [described(m.settings, m.prepared) for m in self.models if m.prepared is not None]
        return self.start("vLLM", ENGINE_STEPS, given)

    def start(self, what: str, steps: Sequence[str], given: object) -> Iterator[Finding]:
        """Start a probe's process; where none can be started, that is a finding."""
        try:
            self.probes.append((steps, self.stack.enter_context(Probe(steps, given))))
        except OSError as error:
            seen = f"no process can be started to import {what}: {error.strerror}"
            remedy = "free memory, or raise the limit on processes (ulimit -u)"
            yield problem(what, seen, remedy)

    def about_settings(self) -> Iterator[Finding]:
        given, environment = self.wish.settings, self.environment
        error = given if isinstance(given, SettingsError) else None
        yield settings_checks.judge_load(error, self.wish.file)
        yield from settings_checks.judge_variables(environment)
        yield from settings_checks.judge_secret(environment)
        if self.settings is not None:
            yield from settings_checks.judge_tls(self.settings)
            http = self.settings.http
            yield from keys.judge(http.keys_file, environment, http.host)

    def about_models(self) -> Iterator[Finding]:
        if self.settings is None:
            yield skipped("models", "there are no settings that name them")
            return
        rehearse = None if self.wish.quick else rehearse_apart
        self.models = self.stack.enter_context(
            models.checked_models(self.settings, self.environment, self.wish.offline, rehearse)
        )
        flags = machine.cpu_flags(Path("/proc/cpuinfo").read_text(errors="replace"))
        for checked in self.models:
            yield from checked.findings
            yield from models.judge_dtype(checked, flags, self.on_cpu)

    def about_machine(self) -> Iterator[Finding]:
        m = machine.read_machine()
        yield machine.judge_system(m)
        yield machine.judge_processor(m, self.on_cpu)
        if self.settings is not None:
            engines = sum(s.replicas for s in self.settings.models)
            threads = sum(s.replicas * (s.resources.num_cpus or 1) for s in self.settings.models)
            if self.on_cpu:
                yield machine.judge_cores(m, threads, engines)
            yield machine.judge_memory(m, self.memory_needed(engines), self.weights_known())
        yield machine.judge_shared_memory(m)
        connections = self.environment.get("RAY_SERVE_HAPROXY_MAXCONN", "")
        yield machine.judge_open_files(
            m, int(connections) if connections.isdigit() else machine.PROXY_CONNECTIONS
        )
        yield machine.judge_clock(m)

    def memory_needed(self, engines: int) -> int:
        """Bytes of main memory of the whole service."""
        assert self.settings is not None
        needed = machine.SERVICE_MEMORY + engines * machine.ENGINE_MEMORY
        needed += self.settings.router.replicas * machine.ROUTER_MEMORY
        for checked in self.models if self.on_cpu else ():
            kept = checked.cache_gib() * GIB
            needed += checked.settings.replicas * (checked.weights() + kept)
        return needed

    def weights_known(self) -> bool:
        return not self.on_cpu or all(m.weights() for m in self.models)

    def about_disks(self) -> Iterator[Finding]:
        cache = cache_root(self.settings.cache if self.settings else None)
        yield from disks.examine(cache, models.room_needed(self.models), self.environment)

    def about_gpus(self) -> list[Finding]:
        gpus, torch = gpu.read_gpus(self.environment), gpu.read_torch()
        return gpu.judge(gpus, torch, self.on_cpu, self.settings)

    def about_ray(self) -> Iterator[Finding]:
        yield processes.judge_proxy(self.environment)
        yield processes.judge_address(self.environment.get("RAY_ADDRESS"))
        self.running = processes.read_processes()
        yield from processes.judge_processes(self.running)

    def about_ports(self) -> list[Finding]:
        if self.settings is None:
            return [skipped("ports", "there are no settings that name them")]
        return ports.examine(self.settings, self.running)

    def about_imports(self) -> Iterator[Finding]:
        """One finding a step; on a CPU, the step that looks for a GPU's driver finds nothing."""
        if self.wish.quick:
            yield skipped("imports", "left out by --quick")
        for steps, probe in self.probes:
            outcome = probe.wait()
            self.caches |= outcome.facts("engines") or {}
            driver = outcome.facts(DRIVER)
            left_out = {"engines"} if driver is None or "gpus" in driver else {"engines", DRIVER}
            yield from (judge_import(step, outcome) for step in steps if step not in left_out)

    def about_scope(self) -> Iterator[Finding]:
        if self.settings is not None and any(m.caches for m in self.models):
            yield from reuse.judge_scope(self.settings.cache_scope)

    def about_reuse(self, checked: Checked) -> Iterator[Finding]:
        model, prepared = checked.settings, checked.prepared
        if prepared is None or checked.profile is None:
            yield skipped(model.name, "not known before the model has been prepared")
            return
        found = self.caches.get(model.name)
        if found is not None and "error" in found:
            yield engines_refusal(model, found["error"])
            return
        cache = EngineCache(**found) if found is not None else None
        tokenizer = FileTokenizer(prepared.path)
        layout = read_layout(find(prepared.protocol), tokenizer, prepared)
        yield from reuse.judge(model, checked.profile, layout, cache, self.on_cpu)

    def about_trial(self, checked: Checked) -> list[Finding]:
        assert self.settings is not None
        model = checked.settings
        given = {"model": model.model_dump(mode="json"), "cache": str(self.settings.cache)}
        self.say(f"starting a real engine with {model.name}")
        with Probe(["trial"], given) as probe:
            outcome = probe.wait(TRIAL_S)
        return reuse.judge_trial(model, outcome)


def engines_refusal(model: ModelSettings, error: str) -> Finding:
    return problem(
        f"{model.name} arguments",
        f"vLLM refuses what the engine would be started with: {short(error)}",
        f"correct models.{model.name} (engine_args, max_model_len, dtype), or choose another "
        "checkpoint",
    )
