"""Paths: aliases, prefixes and slashes."""

from __future__ import annotations

import pytest

from jevserve.api import paths
from jevserve.api.paths import normal_prefix, resolve


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/v1/systemone", paths.SYSTEM_ONE),
        ("/v1/systemone/", paths.SYSTEM_ONE),
        ("//v1/systemone", paths.SYSTEM_ONE),
        ("/systemone", paths.SYSTEM_ONE),
        ("/api/v1/systemone", paths.SYSTEM_ONE),
        ("/api/alpha/decisions", paths.SYSTEM_ONE),
        ("/team/a/v1/systemone", paths.SYSTEM_ONE),
        ("/v1/systemone/v1/systemone", paths.SYSTEM_ONE),
        ("/v1/decisions", paths.DECISIONS),
        ("/inference/v1/decisions", paths.DECISIONS),
        ("/any/v1/models/", paths.MODELS),
        ("/healthz", paths.HEALTHZ),
        ("/jev/healthz", paths.HEALTHZ),
        ("/jev/v1/models", paths.MODELS),
        ("/jev/metrics/", paths.METRICS),
        ("/", paths.PAGE),
        ("", paths.PAGE),
        ("/jev", paths.PAGE),
        ("/jev/", paths.PAGE),
    ],
)
def test_a_path_means_its_endpoint(path, endpoint):
    assert resolve(path, ("", "/jev")) is endpoint


@pytest.mark.parametrize(
    "path",
    [
        "/other",
        "/v1",
        "/v1/systemone/x",
        "/xv1x/systemon",
        "/other/healthz",
        "/jevelin/metrics",
        "/v1/models/fake-1",
        "/xsystemone",
    ],
)
def test_other_paths_mean_nothing(path):
    assert resolve(path, ("", "/jev")) is None


@pytest.mark.parametrize("given", ["jev", "/jev", "/jev/", "//jev//"])
def test_a_prefix_is_understood_however_it_is_written(given):
    assert normal_prefix(given) == "/jev"


def test_no_prefix_is_the_empty_one():
    assert normal_prefix("") == normal_prefix("/") == ""
