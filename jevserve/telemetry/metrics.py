"""Every metric of jevserve: name, labels, unit and meaning, and what records it.

Label values are bounded: routes and kinds are fixed lists, models are canonical names that the
service itself reports, and reasons are words of the code, cut off at ``MAX_REASONS``. Nothing a
caller writes becomes a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from jevserve.decisions.request import DecisionRequest, DecisionResponse

#: Seconds; decisions take milliseconds to a few seconds, clients give up at ten.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: Bytes of a request body.
BYTES = tuple(float(2**i) for i in range(8, 26, 2))

MAX_REASONS = 64
MAX_MODELS = 256

PAGE_COMMENT = (
    "# jevserve: the view of one process. Scrape every router and engine process and sum.\n"
)


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class MetricSpec:
    """One metric as the documentation lists it.

    Attributes:
        name: full name; a counter's gets ``_total`` on the page.
        kind: counter, gauge or histogram.
        unit: of the value.
        meaning: one sentence.
        labels: label names.
        buckets: upper bounds, histograms only.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


HTTP_REQUESTS = MetricSpec(
    "jevserve_http_requests",
    Kind.COUNTER,
    "requests",
    "HTTP requests answered, by route and status; 499 where the client left first.",
    ("route", "status"),
)
HTTP_SECONDS = MetricSpec(
    "jevserve_http_request_duration_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Time from a request's headers to the end of its response.",
    ("route",),
    SECONDS,
)
HTTP_IN_FLIGHT = MetricSpec(
    "jevserve_http_requests_in_flight",
    Kind.GAUGE,
    "requests",
    "HTTP requests being answered now.",
)
HTTP_BODY_BYTES = MetricSpec(
    "jevserve_http_request_body_bytes",
    Kind.HISTOGRAM,
    "bytes",
    "Decoded size of request bodies.",
    (),
    BYTES,
)
HTTP_RETRIES = MetricSpec(
    "jevserve_http_retries",
    Kind.COUNTER,
    "requests",
    "Requests that a client says are retries, by attempt (1, 2, 3+).",
    ("attempt",),
)
REFUSALS = MetricSpec(
    "jevserve_refusals",
    Kind.COUNTER,
    "requests",
    "Requests refused or failed, by the error's type or the reason to retry.",
    ("reason",),
)
DECISIONS = MetricSpec(
    "jevserve_decisions",
    Kind.COUNTER,
    "decisions",
    "Decisions answered, by model.",
    ("model",),
)
QUESTIONS = MetricSpec(
    "jevserve_questions",
    Kind.COUNTER,
    "questions",
    "Questions answered, by model and kind.",
    ("model", "kind"),
)
TOKENS = MetricSpec(
    "jevserve_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens of answered decisions, by model: input counts shared text once, cached and computed "
    "sum over engine rows.",
    ("model", "source"),
)
DECISION_SECONDS = MetricSpec(
    "jevserve_decision_duration_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Time from a parsed request to its answers, by model.",
    ("model",),
    SECONDS,
)

#: What a router's HTTP door records.
HTTP_METRICS = (
    HTTP_REQUESTS,
    HTTP_SECONDS,
    HTTP_IN_FLIGHT,
    HTTP_BODY_BYTES,
    HTTP_RETRIES,
    REFUSALS,
    DECISIONS,
    QUESTIONS,
    TOKENS,
    DECISION_SECONDS,
)

REPLICA = ("model", "replica")

ENGINE_READY = MetricSpec(
    "jevserve_engine_ready",
    Kind.GAUGE,
    "0 or 1",
    "1 where the engine replica takes decisions, 0 while it starts, drains or is dead.",
    REPLICA,
)
ENGINE_BACKLOG_TOKENS = MetricSpec(
    "jevserve_engine_backlog_tokens",
    Kind.GAUGE,
    "tokens",
    "Tokens of accepted rows that are not answered yet.",
    REPLICA,
)
ENGINE_BACKLOG_ROWS = MetricSpec(
    "jevserve_engine_backlog_rows",
    Kind.GAUGE,
    "rows",
    "Accepted rows that are not answered yet.",
    REPLICA,
)
ENGINE_RATE = MetricSpec(
    "jevserve_engine_tokens_per_second",
    Kind.GAUGE,
    "tokens/second",
    "Tokens computed per second under load, as measured; what routing and admission count with.",
    REPLICA,
)
ENGINE_ROUND = MetricSpec(
    "jevserve_engine_round_seconds",
    Kind.GAUGE,
    "seconds",
    "Time of one engine round while there is work, as measured.",
    REPLICA,
)
ENGINE_ROUNDS = MetricSpec(
    "jevserve_engine_rounds",
    Kind.COUNTER,
    "rounds",
    "Engine rounds; standing still with a backlog means a hung engine.",
    REPLICA,
)
ENGINE_DECISIONS = MetricSpec(
    "jevserve_engine_decisions",
    Kind.COUNTER,
    "decisions",
    "Decisions accepted.",
    REPLICA,
)
ENGINE_ROWS = MetricSpec(
    "jevserve_engine_rows", Kind.COUNTER, "rows", "Rows submitted to vLLM.", REPLICA
)
ENGINE_TOKENS = MetricSpec(
    "jevserve_engine_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens of answered rows: computed, or cached where the prefix cache had them.",
    (*REPLICA, "source"),
)

#: What an engine process exports, from its replica report.
ENGINE_METRICS = (
    ENGINE_READY,
    ENGINE_BACKLOG_TOKENS,
    ENGINE_BACKLOG_ROWS,
    ENGINE_RATE,
    ENGINE_ROUND,
    ENGINE_ROUNDS,
    ENGINE_DECISIONS,
    ENGINE_ROWS,
    ENGINE_TOKENS,
)

#: Everything; documentation and dashboards are checked against it.
ALL_METRICS: tuple[MetricSpec, ...] = HTTP_METRICS + ENGINE_METRICS


def counter(spec: MetricSpec, registry: CollectorRegistry) -> Counter:
    return Counter(spec.name, spec.meaning, spec.labels, registry=registry)


def gauge(spec: MetricSpec, registry: CollectorRegistry) -> Gauge:
    return Gauge(spec.name, spec.meaning, spec.labels, registry=registry)


def histogram(spec: MetricSpec, registry: CollectorRegistry) -> Histogram:
    return Histogram(spec.name, spec.meaning, spec.labels, registry=registry, buckets=spec.buckets)


class BoundedLabel:
    """Lets the first ``most`` distinct values through; later ones become ``other``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= self._most:
            return "other"
        self._seen.add(value)
        return value


class HttpMetrics:
    """The HTTP door's metrics on one registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._requests = counter(HTTP_REQUESTS, self.registry)
        self._seconds = histogram(HTTP_SECONDS, self.registry)
        self._in_flight = gauge(HTTP_IN_FLIGHT, self.registry)
        self._body_bytes = histogram(HTTP_BODY_BYTES, self.registry)
        self._retries = counter(HTTP_RETRIES, self.registry)
        self._refusals = counter(REFUSALS, self.registry)
        self._decisions = counter(DECISIONS, self.registry)
        self._questions = counter(QUESTIONS, self.registry)
        self._tokens = counter(TOKENS, self.registry)
        self._decision_seconds = histogram(DECISION_SECONDS, self.registry)
        self._reason = BoundedLabel(MAX_REASONS)
        self._model = BoundedLabel(MAX_MODELS)

    def request_started(self, retry_count: str | None) -> None:
        """A request's headers arrived; ``retry_count`` is its ``X-TypeSafe-Retry-Count``."""
        self._in_flight.inc()
        if retry_count is not None and retry_count.isascii() and retry_count.isdigit():
            attempt = retry_count.lstrip("0")
            if attempt:
                self._retries.labels(attempt if attempt in ("1", "2") else "3+").inc()

    def request_ended(self, route: str, status: int, seconds: float) -> None:
        """``route`` is a canonical path of the door's table, or ``other``."""
        self._in_flight.dec()
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def body_read(self, size: int) -> None:
        self._body_bytes.observe(size)

    def refused(self, reason: str) -> None:
        self._refusals.labels(self._reason(reason)).inc()

    def decided(self, request: DecisionRequest, response: DecisionResponse) -> None:
        """A decision was answered."""
        model = self._model(response.model)
        self._decisions.labels(model).inc()
        kinds: dict[str, int] = {}
        for _, question in request.questions:
            kind = type(question).__name__.lower()
            kinds[kind] = kinds.get(kind, 0) + 1
        for kind, n in kinds.items():
            self._questions.labels(model, kind).inc(n)
        self._tokens.labels(model, "input").inc(response.usage.input_tokens)
        self._tokens.labels(model, "cached").inc(response.timings.cached_tokens)
        self._tokens.labels(model, "computed").inc(response.timings.computed_tokens)
        self._decision_seconds.labels(model).observe(response.timings.total_ms / 1000)

    def page(self) -> bytes:
        """The Prometheus text format of everything on the registry."""
        return PAGE_COMMENT.encode() + generate_latest(self.registry)
