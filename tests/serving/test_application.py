"""The Serve application: one place that builds it, for a laptop and a cluster alike."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from jevserve.serving import application
from jevserve.serving.application import (
    actor_options,
    build,
    cluster_config,
    deployment_name,
)
from jevserve.settings import ModelSettings, ServiceSettings

SETTINGS = ServiceSettings.model_validate(
    {
        "models": [
            {"name": "a/b", "checkpoint": "/models/a", "replicas": 3, "engine_args": {"x": [1]}},
            {"name": "c", "resources": {"num_cpus": 2, "num_gpus": 0.5, "accelerator": "A800"}},
        ],
        "default_model": "c",
        "aliases": {"fast": "a/b"},
        "cache": "/cache",
        "router": {"replicas": 2, "num_cpus": 0.5},
        "http": {"keys_file": "/keys.yaml"},
        "transport": {"tls_cert": "c", "tls_key": "k", "tls_ca": "ca"},
    }
)


def bound(app: Any) -> tuple[Any, tuple[Any, ...]]:
    """The deployment of a Serve application and what it is constructed with."""
    deployment = app._bound_deployment
    return deployment, deployment.init_args


def test_settings_reach_every_process_unchanged() -> None:
    router, (settings, engines) = bound(build(SETTINGS.model_dump(mode="json")))

    assert ServiceSettings.model_validate(settings) == SETTINGS
    assert list(engines) == ["a/b", "c"]
    for name, engine in engines.items():
        deployment, (engine_settings, model) = bound(engine)
        assert ServiceSettings.model_validate(engine_settings) == SETTINGS
        assert (model, deployment.name) == (name, deployment_name(name))
    assert router.name == "Router"


def test_what_travels_is_json() -> None:
    _, (settings, _) = bound(build(SETTINGS.model_dump(mode="json")))

    assert json.loads(json.dumps(settings)) == settings


def test_replicas_and_resources_are_those_of_the_settings() -> None:
    router, (_, engines) = bound(build(SETTINGS.model_dump(mode="json")))

    assert router.num_replicas == 2
    assert router.ray_actor_options["num_cpus"] == 0.5
    assert [bound(e)[0].num_replicas for e in engines.values()] == [3, 1]
    assert bound(engines["c"])[0].ray_actor_options == {
        "num_cpus": 2,
        "num_gpus": 0.5,
        "accelerator_type": "A800",
    }


def test_serves_own_queue_bound_never_binds_before_admission() -> None:
    router, (_, engines) = bound(build(SETTINGS.model_dump(mode="json")))

    for deployment in (router, *(bound(e)[0] for e in engines.values())):
        assert deployment.max_ongoing_requests > 10 * SETTINGS.router.max_in_flight


@pytest.mark.parametrize(("cpu_build", "gpus"), [(True, 0.0), (False, 1.0)])
def test_an_engine_takes_a_gpu_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, cpu_build: bool, gpus: float
) -> None:
    monkeypatch.setattr(application, "on_cpu", lambda: cpu_build)

    assert actor_options(ModelSettings(name="m")) == {"num_cpus": 1.0, "num_gpus": gpus}


@pytest.mark.parametrize(
    ("arguments", "asked", "gpus"),
    [
        ({"tensor_parallel_size": 4}, None, 4.0),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, None, 4.0),
        ({"tensor_parallel_size": 4}, 8.0, 8.0),
        ({"tensor_parallel_size": "vllm says what is wrong with it"}, None, 1.0),
    ],
)
def test_an_engine_that_spreads_over_gpus_takes_as_many_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], asked: float | None, gpus: float
) -> None:
    monkeypatch.setattr(application, "on_cpu", lambda: False)
    model = ModelSettings.model_validate(
        {"name": "m", "engine_args": arguments, "resources": {"num_gpus": asked}}
    )

    assert actor_options(model)["num_gpus"] == gpus


@pytest.mark.parametrize(
    ("model", "name"),
    [("jev-embed", "Engine-jev-embed"), ("org/m@v1:2", "Engine-org_m_v1_2"), ("m.1", "Engine-m.1")],
)
def test_a_deployment_is_named_after_its_model(model: str, name: str) -> None:
    assert deployment_name(model) == name


def test_a_cluster_gets_the_very_application_that_is_built_here() -> None:
    config = yaml.safe_load(yaml.safe_dump(cluster_config(SETTINGS)))

    (app,) = config["serve"]["applications"]
    module, _, attribute = app["import_path"].partition(":")
    builder = getattr(importlib.import_module(module), attribute)
    assert builder is build
    _, (settings, _) = bound(builder(app["args"]))
    assert ServiceSettings.model_validate(settings) == SETTINGS
    assert app["route_prefix"] == "/"


def test_ray_serve_accepts_what_a_cluster_gets() -> None:
    config = yaml.safe_load(yaml.safe_dump(cluster_config(SETTINGS)))["serve"]

    deployed = ServeDeploySchema.model_validate(config)

    (app,) = deployed.applications
    assert ServiceSettings.model_validate(app.args) == SETTINGS
    assert app.import_path == config["applications"][0]["import_path"]


def test_a_cluster_is_told_which_secrets_it_needs_and_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JEVSERVE_API_KEYS", "very-secret-key")
    monkeypatch.setenv("JEVSERVE_CLUSTER_SECRET", "very-secret-and-thirty-two-bytes-long")

    config = cluster_config(ServiceSettings())

    assert "very-secret" not in repr(config)
    assert config["secrets"][0] == "JEVSERVE_CLUSTER_SECRET"
    assert not any("SECRET" in name or "KEY" in name for name in config["environment"])
