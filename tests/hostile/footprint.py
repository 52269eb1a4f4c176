"""What a running service holds: open files and memory of each process, and work in hand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from jevserve.settings import MetricsSettings
from jevserve.telemetry.engine import PORTS
from tests.serving.service import Service, children, title

#: Zero while nobody asks anything: of the router, of our engine replica, and vLLM's own.
WORK = (
    "jevserve_http_requests_in_flight",
    "jevserve_engine_backlog_rows",
    "jevserve_engine_backlog_tokens",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
)


@dataclass(frozen=True)
class Held:
    """By one process."""

    name: str
    files: int
    memory: int


Footprint = dict[int, Held]


def footprint(service: Service) -> Footprint:
    """Of each process of the service, by its id."""
    held = {}
    for process in (psutil.Process(service.process.pid), *children(service.process.pid)):
        with contextlib.suppress(psutil.NoSuchProcess):
            held[process.pid] = Held(
                name(process), process.num_fds(), int(process.memory_info().rss)
            )
    return held


def name(process: psutil.Process) -> str:
    """What a reader calls it: the title that it gave itself, or the program that Python runs."""
    if not process.name().startswith("python"):
        return Path(title(process).split()[0]).name
    words = title(process).split()[1:]
    return next((Path(w).name for w in words if "." in w or w == "jevserve"), process.name())


def memory(held: Footprint) -> int:
    return sum(h.memory for h in held.values())


def samples(service: Service) -> list[Sample]:
    """Of the router's metrics page and of every engine's."""
    pages = [f"{service.url}/metrics"]
    pages += [f"http://127.0.0.1:{port}/metrics" for port in engine_ports(service)]
    return [
        sample
        for page in pages
        for family in text_string_to_metric_families(httpx.get(page, timeout=30).text)
        for sample in family.samples
    ]


def engine_ports(service: Service) -> list[int]:
    first = MetricsSettings().engine_port
    return [
        c.laddr.port
        for process in service.replicas("Engine-")
        for c in process.net_connections("tcp")
        if c.status == psutil.CONN_LISTEN and first <= c.laddr.port < first + PORTS
    ]


def total(found: Iterable[Sample], name: str, **labels: str) -> float:
    """Sum of a metric's samples that have these labels."""
    return sum(s.value for s in found if s.name == name and labels.items() <= s.labels.items())


def work(found: list[Sample]) -> dict[str, float]:
    """What is being worked on, without the request for the page itself."""
    assert {s.name for s in found} >= set(WORK), "the pages do not say"
    amounts = {name: total(found, name) for name in WORK}
    amounts[WORK[0]] -= 1
    return {name: amount for name, amount in amounts.items() if amount}
