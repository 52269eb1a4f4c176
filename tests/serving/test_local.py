"""A service on one machine: what it shares out, and when it counts as ready."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jevserve.errors import SettingsError
from jevserve.serving import local
from jevserve.serving.local import (
    all_ready,
    check_port,
    reachable,
    usable_cores,
    with_local_resources,
)
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
    monkeypatch.setattr(local, "usable_cores", lambda: 8)
    models = [
        {"name": "a", "replicas": 2},
        {"name": "b", "resources": {"num_cpus": 5}, "max_model_len": 100},
    ]

    made = with_local_resources(ServiceSettings.model_validate({"models": models}))

    assert [m.resources.num_cpus for m in made.models] == [2.0, 5.0]
    assert [m.max_model_len for m in made.models] == [8_192, 100]
    assert (made.transport.host, made.metrics.host) == ("127.0.0.1", "127.0.0.1")


def test_what_an_operator_says_about_addresses_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "on_cpu", lambda: False)
    settings = ServiceSettings.model_validate(
        {"transport": {"host": "10.0.0.7"}, "metrics": {"host": "0.0.0.0"}}
    )

    assert with_local_resources(settings) == settings


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("?", 2)]
)
def test_a_containers_quota_bounds_the_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, cores: int
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(local, "CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})

    assert usable_cores() == cores


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_an_address_that_is_taken_is_told_before_anything_starts(host: str) -> None:
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family) as other:
        other.bind(address)
        other.listen()
        port = other.getsockname()[1]
        settings = ServiceSettings.model_validate({"http": {"host": host, "port": port}})

        with pytest.raises(SettingsError, match="cannot listen on"):
            check_port(settings)
    check_port(settings)
