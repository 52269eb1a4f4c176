"""Processes on the machine: leftovers, other services, other Rays, and HAProxy's binary."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jevserve.doctor.findings import GIB, Finding, Verdict
from jevserve.doctor.processes import (
    PROXY_VARIABLE,
    Process,
    judge_address,
    judge_processes,
    judge_proxy,
    read_processes,
)

INIT = Process(1, 0, "systemd", ("/sbin/init",))
SHELL = Process(10, 1, "bash", ("-bash",))
SERVICE = Process(
    20, 10, "python", ("/venv/bin/python", "/venv/bin/jevserve", "serve", "--port", "1")
)
GCS = Process(21, 20, "gcs_server", ("/venv/ray/core/src/ray/gcs/gcs_server", "--x"))
RAYLET = Process(22, 20, "raylet", ("/venv/ray/core/src/ray/raylet/raylet",))
REPLICA = Process(23, 22, "ray::ServeRepl", ("ray::ServeReplica:jevserve:Engine-m",))
ENGINE = Process(24, 23, "VLLM::EngineCor", ("VLLM::EngineCore",), memory=2 * GIB)
PROXY = Process(25, 22, "haproxy", ("/venv/bin/haproxy", "-f", "/tmp/jevserve-ab12/haproxy.cfg"))
RUNNING = (INIT, SHELL, SERVICE, GCS, RAYLET, REPLICA, ENGINE, PROXY)


def judged(*processes: Process) -> dict[str, Finding]:
    return {f.check: f for f in judge_processes({p.pid: p for p in processes})}


def test_an_idle_machine_is_fine() -> None:
    found = judged(INIT, SHELL)

    assert {f.verdict for f in found.values()} == {Verdict.OK}
    assert "no other Ray" in found["ray"].seen


def test_a_running_service_is_no_leftover_and_its_ray_is_its_own() -> None:
    found = judged(*RUNNING)

    assert {f.verdict for f in found.values()} == {Verdict.OK}
    assert "pid 20" in found["services"].seen


def test_a_service_that_is_process_one_of_a_container_is_no_leftover() -> None:
    service = Process(1, 0, "python", SERVICE.command)
    raylet = Process(22, 1, "raylet", RAYLET.command)

    found = judged(service, raylet, REPLICA, ENGINE, Process(25, 1, "haproxy", PROXY.command))

    assert {f.verdict for f in found.values()} == {Verdict.OK}


@pytest.mark.parametrize("init", [INIT, Process(300, 1, "systemd", ("systemd", "--user"))])
def test_what_a_killed_service_left_is_named_with_the_command_that_ends_it(init: Process) -> None:
    engine = Process(24, init.pid, ENGINE.name, ENGINE.command, memory=2 * GIB)
    proxy = Process(25, init.pid, "haproxy", PROXY.command)

    found = judged(INIT, init, engine, proxy)

    assert found["leftovers"].verdict is Verdict.WARNING
    assert "VLLM::EngineCore (pid 24), haproxy (pid 25), holding 2.0 GiB" in found["leftovers"].seen
    assert found["leftovers"].remedy == "kill 24 25"


def test_the_systems_own_haproxy_is_left_alone() -> None:
    own = Process(50, 1, "haproxy", ("/usr/sbin/haproxy", "-f", "/etc/haproxy/haproxy.cfg"))

    assert judged(INIT, own)["leftovers"].verdict is Verdict.OK


def test_a_ray_that_somebody_started_is_named_and_never_to_be_stopped_whole() -> None:
    gcs = Process(21, 1, "gcs_server", GCS.command, user="ada", age=7200)

    found = judged(INIT, gcs, Process(22, 1, "raylet", RAYLET.command))

    assert found["ray"].verdict is Verdict.WARNING
    assert "user ada, for 2.0 h" in found["ray"].seen
    assert "kill 21" in found["ray"].remedy
    assert found["leftovers"].verdict is Verdict.OK


def test_processes_that_are_each_others_parents_end_the_search() -> None:
    # A pid may be taken again between two readings.
    one = Process(2, 3, "gcs_server", GCS.command)
    two = Process(3, 2, "raylet", RAYLET.command)

    assert judged(one, two)


@pytest.mark.parametrize(
    ("command", "title"),
    [
        (("/usr/bin/python3", "-m", "http.server", "--token", "s3cret"), "python3 -m http.server"),
        (("/usr/bin/python3", "/srv/app.py", "s3cret"), "python3 /srv/app.py"),
        (("python", "-c", "password='s3cret'"), "python"),
        (("nginx: master process s3cret",), "nginx:"),
        ((), "kthread"),
    ],
)
def test_a_processes_title_tells_the_program_and_no_argument(
    command: tuple[str, ...], title: str
) -> None:
    assert Process(2, 1, "kthread", command).title == title


def test_this_process_is_among_those_that_are_read() -> None:
    assert read_processes()[os.getpid()].parent == os.getppid()


def test_an_address_of_a_ray_is_ignored_and_said_to_be() -> None:
    assert judge_address(None).verdict is Verdict.OK
    assert judge_address("ray://elsewhere:10001").verdict is Verdict.WARNING


def test_haproxy_of_this_environment_starts() -> None:
    finding = judge_proxy({})

    assert finding.verdict is Verdict.OK
    assert "HAProxy version" in finding.seen


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("#!/bin/sh\necho 'libcrypt.so.1: cannot open shared object file'; exit 127\n", "libcrypt"),
        ("#!/no/such/interpreter\n", "does not start"),
    ],
)
def test_a_haproxy_that_does_not_start_is_a_problem(tmp_path: Path, body: str, seen: str) -> None:
    binary = tmp_path / "haproxy"
    binary.write_text(body)
    binary.chmod(0o755)

    finding = judge_proxy({PROXY_VARIABLE: str(binary)})

    assert finding.verdict is Verdict.PROBLEM
    assert seen in finding.seen


def test_a_haproxy_that_is_no_program_is_a_problem(tmp_path: Path) -> None:
    finding = judge_proxy({PROXY_VARIABLE: str(tmp_path)})

    assert finding.verdict is Verdict.PROBLEM
    assert PROXY_VARIABLE in finding.remedy
