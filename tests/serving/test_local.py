"""A service on one machine: what it shares out, and when it counts as ready."""

from __future__ import annotations

import pytest

from jevserve.serving import local
from jevserve.serving.local import all_ready, reachable, with_local_resources
from jevserve.settings import ServiceSettings


@pytest.mark.parametrize(
    ("details", "ready"),
    [
        ({"m": "1 of 1 replicas ready"}, True),
        ({"m": "1 of 2 replicas ready", "n": "0 of 1 replicas ready"}, False),
        ({"m": "10 of 10 replicas ready"}, True),
        ({"0 of hearts": "2 of 2 replicas ready"}, True),
    ],
)
def test_a_service_is_ready_once_every_model_has_a_replica(
    details: dict[str, str], ready: bool
) -> None:
    assert all_ready(details) is ready


@pytest.mark.parametrize(
    ("host", "address"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("10.0.0.7", "10.0.0.7")]
)
def test_a_listener_on_every_address_is_asked_on_this_machine(host: str, address: str) -> None:
    assert reachable(host) == address


def test_engines_on_a_cpu_share_the_cores_and_listen_to_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "on_cpu", lambda: True)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    models = [{"name": "a", "replicas": 2}, {"name": "b", "resources": {"num_cpus": 5}}]

    made = with_local_resources(ServiceSettings.model_validate({"models": models}))

    assert [m.resources.num_cpus for m in made.models] == [2.0, 5.0]
    assert (made.transport.host, made.metrics.host) == ("127.0.0.1", "127.0.0.1")


def test_what_an_operator_says_about_addresses_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "on_cpu", lambda: False)
    settings = ServiceSettings.model_validate(
        {"transport": {"host": "10.0.0.7"}, "metrics": {"host": "0.0.0.0"}}
    )

    assert with_local_resources(settings) == settings
