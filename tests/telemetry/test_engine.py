"""The metrics page of an engine process."""

from __future__ import annotations

import socket
import urllib.request

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from jevserve.serving.environment import free_ports
from jevserve.telemetry.engine import serve_metrics
from jevserve.telemetry.metrics import ENGINE_METRICS, Kind
from jevserve.transport.base import ReplicaReport, ReplicaState

REPORT = ReplicaReport(
    "replica-1",
    "tiny",
    "revision",
    state=ReplicaState.READY,
    tokens_per_second=5000.5,
    round_ms=20.0,
    backlog_tokens=300,
    backlog_rows=3,
    steps=7,
    decisions=5,
    rows=11,
    computed_tokens=900,
    cached_tokens=100,
)


def page(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        families = text_string_to_metric_families(response.read().decode())
    return {
        s.name + s.labels.get("source", ""): s.value
        for f in families
        for s in f.samples
        if s.labels.get("replica") == "replica-1" and s.labels["model"] == "tiny"
    }


def test_the_page_says_what_the_report_says_and_nothing_is_missing() -> None:
    (port,) = free_ports(1)
    found = page(serve_metrics(lambda: REPORT, "127.0.0.1", port, CollectorRegistry()))
    assert found["jevserve_engine_ready"] == 1
    assert found["jevserve_engine_tokens_per_second"] == 5000.5
    assert found["jevserve_engine_round_seconds"] == 0.02
    assert found["jevserve_engine_rounds_total"] == 7
    assert found["jevserve_engine_tokens_totalcomputed"] == 900
    assert found["jevserve_engine_tokens_totalcached"] == 100
    for spec in ENGINE_METRICS:
        suffix = "_total" if spec.kind is Kind.COUNTER else ""
        assert any(name.startswith(spec.name + suffix) for name in found), spec.name


def test_where_the_port_is_taken_the_next_free_one_serves() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        got = serve_metrics(lambda: REPORT, "127.0.0.1", port, CollectorRegistry())
        assert got > port
        assert page(got)["jevserve_engine_backlog_rows"] == 3
