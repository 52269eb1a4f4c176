"""An engine process's own metrics page: its replica report, and vLLM's metrics beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import REGISTRY, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from jevserve.errors import SettingsError
from jevserve.telemetry import metrics
from jevserve.transport.base import ReplicaReport, ReplicaState

#: Engines of one machine share it this far.
PORTS = 100


class ReportCollector(Collector):
    """Reads the report whenever a scrape asks for it."""

    def __init__(self, report: Callable[[], ReplicaReport]) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        report = self._report()
        who = (report.model, report.replica)
        plain = (
            (metrics.ENGINE_READY, float(report.state is ReplicaState.READY)),
            (metrics.ENGINE_BACKLOG_TOKENS, report.backlog_tokens),
            (metrics.ENGINE_BACKLOG_ROWS, report.backlog_rows),
            (metrics.ENGINE_RATE, report.tokens_per_second),
            (metrics.ENGINE_ROUND, report.round_ms / 1e3),
            (metrics.ENGINE_ROUNDS, report.steps),
            (metrics.ENGINE_DECISIONS, report.decisions),
            (metrics.ENGINE_ROWS, report.rows),
        )
        for spec, value in plain:
            family = family_of(spec)
            family.add_metric(who, value)
            yield family
        tokens = family_of(metrics.ENGINE_TOKENS)
        tokens.add_metric((*who, "computed"), report.computed_tokens)
        tokens.add_metric((*who, "cached"), report.cached_tokens)
        yield tokens


def family_of(spec: metrics.MetricSpec) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if spec.kind is metrics.Kind.COUNTER else GaugeMetricFamily
    return kind(spec.name, spec.meaning, labels=spec.labels)


def serve_metrics(
    report: Callable[[], ReplicaReport],
    host: str,
    port: int,
    registry: CollectorRegistry = REGISTRY,
) -> int:
    """Serve the metrics page from a thread of this process; returns the port.

    vLLM registers its own metrics in the default registry, so they come along.

    Raises:
        SettingsError: every port of the range is taken.
    """
    registry.register(ReportCollector(report))
    for candidate in range(port, port + PORTS):
        try:
            start_http_server(candidate, host, registry)
        except OSError:
            continue
        return candidate
    raise SettingsError(f"metrics.engine_port: {port} to {port + PORTS - 1} are all taken")
