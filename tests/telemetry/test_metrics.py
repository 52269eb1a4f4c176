"""Metrics: named as listed, bounded whatever callers send."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from jevserve.decisions.request import (
    Choice,
    DecisionRequest,
    DecisionResponse,
    Noul,
    Timings,
    Usage,
)
from jevserve.telemetry.metrics import (
    ALL_METRICS,
    HTTP_METRICS,
    MAX_MODELS,
    MAX_REASONS,
    HttpMetrics,
    Kind,
)


def samples(metrics: HttpMetrics) -> dict[tuple[str, tuple], float]:
    families = text_string_to_metric_families(metrics.page().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def test_every_metric_is_named_and_described_by_the_house_rules():
    names = [spec.name for spec in ALL_METRICS]
    assert len(set(names)) == len(names)
    for spec in ALL_METRICS:
        assert re.fullmatch(r"jevserve_[a-z_]+", spec.name)
        assert not spec.name.endswith("_total")
        assert spec.unit
        assert spec.meaning.endswith(".")
        assert bool(spec.buckets) == (spec.kind is Kind.HISTOGRAM)


def test_the_page_holds_every_listed_metric_and_says_whose_view_it_is():
    page = HttpMetrics().page().decode()
    assert page.startswith("# jevserve: the view of one process.")
    parsed = text_string_to_metric_families(page)
    families = {f.name: f.type for f in parsed if not f.name.endswith("_created")}
    assert families == {spec.name: spec.kind.value for spec in HTTP_METRICS}


def test_a_request_is_in_flight_until_it_has_ended():
    metrics = HttpMetrics()
    metrics.request_started(None)
    assert samples(metrics)["jevserve_http_requests_in_flight", ()] == 1
    metrics.request_ended("/v1/systemone", 200, 0.2)
    found = samples(metrics)
    route = (("route", "/v1/systemone"),)
    assert found["jevserve_http_requests_in_flight", ()] == 0
    assert found["jevserve_http_requests_total", (*route, ("status", "200"))] == 1
    assert found["jevserve_http_request_duration_seconds_sum", route] == 0.2


@pytest.mark.parametrize(
    ("header", "attempt"),
    [("1", "1"), ("02", "2"), ("3", "3+"), ("9" * 99, "3+"), ("0", None), ("", None), ("x", None)],
)
def test_a_retry_is_counted_by_a_bounded_attempt(header, attempt):
    metrics = HttpMetrics()
    metrics.request_started(header)
    found = {k: v for k, v in samples(metrics).items() if k[0] == "jevserve_http_retries_total"}
    key = ("jevserve_http_retries_total", (("attempt", attempt),))
    assert found == ({} if attempt is None else {key: 1})


@given(st.lists(st.text(max_size=20), max_size=5))
def test_any_retry_header_yields_at_most_three_labels(headers):
    metrics = HttpMetrics()
    for header in headers:
        metrics.request_started(header)
    found = {k[1] for k in samples(metrics) if k[0] == "jevserve_http_retries_total"}
    assert found <= {(("attempt", a),) for a in ("1", "2", "3+")}


def test_a_decision_is_counted_with_its_questions_and_tokens():
    metrics = HttpMetrics()
    noul, choice = Noul("x"), Choice((("a", None),))
    request = DecisionRequest("s", (("a", noul), ("b", noul), ("c", choice)))
    timings = Timings(total_ms=250, cached_tokens=3, computed_tokens=4)
    metrics.decided(request, DecisionResponse("m", (), Usage(5), timings))
    found = samples(metrics)
    model = ("model", "m")
    assert found["jevserve_decisions_total", (model,)] == 1
    assert found["jevserve_questions_total", (("kind", "noul"), model)] == 2
    assert found["jevserve_questions_total", (("kind", "choice"), model)] == 1
    for source, tokens in (("input", 5), ("cached", 3), ("computed", 4)):
        assert found["jevserve_tokens_total", (model, ("source", source))] == tokens
    assert found["jevserve_decision_duration_seconds_sum", (model,)] == 0.25


def test_reasons_and_models_beyond_the_bound_share_one_label():
    metrics = HttpMetrics()
    request = DecisionRequest("s", (("a", Noul("x")),))
    for i in range(MAX_MODELS + 50):
        metrics.refused(f"reason-{i}")
        metrics.decided(request, DecisionResponse(f"m-{i}", (), Usage(1)))
    found = samples(metrics)
    reasons = [k for k in found if k[0] == "jevserve_refusals_total"]
    models = [k for k in found if k[0] == "jevserve_decisions_total"]
    assert len(reasons) == MAX_REASONS + 1
    assert len(models) == MAX_MODELS + 1
    assert found["jevserve_refusals_total", (("reason", "other"),)] == MAX_MODELS + 50 - MAX_REASONS
