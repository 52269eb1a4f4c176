"""Ports: occupied ones with their holders, by real sockets and by made-up ones."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from jevserve.doctor.findings import Verdict
from jevserve.doctor.ports import (
    Door,
    judge_http,
    judge_metrics,
    judge_routers,
    judge_transport,
    read_door,
)
from jevserve.doctor.processes import Process, read_processes
from jevserve.serving.environment import try_bind
from jevserve.telemetry.engine import PORTS
from tests.doctor.test_processes import INIT, PROXY, RUNNING

OPEN = Door("127.0.0.1", 8795, None, None, ("10.0.0.5", "127.0.0.1"), 1024, 8796)


@pytest.fixture
def occupied() -> Iterator[int]:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        yield s.getsockname()[1]


def refusing(*taken: int) -> Callable[[str, int], OSError | None]:
    return lambda host, port: OSError(errno.EADDRINUSE, "in use") if port in taken else None


def test_a_free_port_is_fine() -> None:
    assert judge_http(OPEN, {}).verdict is Verdict.OK


def test_a_port_in_use_is_named_with_who_holds_it_and_a_free_one(occupied: int) -> None:
    running = read_processes()

    finding = judge_http(read_door("127.0.0.1", occupied, running), running)

    assert finding.verdict is Verdict.PROBLEM
    assert f"127.0.0.1:{occupied} is in use by " in finding.seen
    assert f"(pid {os.getpid()})" in finding.seen
    other = int(finding.remedy.rpartition(" ")[2])
    assert try_bind("127.0.0.1", other) is None


@pytest.mark.parametrize(
    ("holder", "running", "seen", "remedy"),
    [
        (PROXY, RUNNING, "another jevserve serve (pid 20)", "kill 20"),
        (
            replace(PROXY, parent=1),
            (INIT,),
            "HAProxy of a jevserve that was killed (pid 25)",
            "kill 25",
        ),
        (Process(77, 1, "nginx", ("nginx",)), (INIT,), "nginx (pid 77)", "kill 77"),
        (None, (), "another user", "ss -ltnp"),
    ],
)
def test_each_kind_of_holder_has_its_own_remedy(
    holder: Process | None, running: tuple[Process, ...], seen: str, remedy: str
) -> None:
    door = replace(OPEN, error=OSError(errno.EADDRINUSE, "in use"), holder=holder)

    finding = judge_http(door, {p.pid: p for p in running})

    assert finding.verdict is Verdict.PROBLEM
    assert seen in finding.seen
    assert remedy in finding.remedy
    assert "--port 8796" in finding.remedy


def test_a_low_port_needs_a_privilege() -> None:
    finding = judge_http(replace(OPEN, port=80, error=OSError(errno.EACCES, "denied")), {})

    assert finding.verdict is Verdict.PROBLEM
    assert "ports below 1024" in finding.seen


@pytest.mark.parametrize("host", ["203.0.113.7", "2001:db8::7", "no-such-host.invalid"])
def test_an_address_that_is_not_this_machines_is_named_with_those_that_are(host: str) -> None:
    door = read_door(host, 8795, {})
    if door.error is not None and door.error.errno == errno.EADDRINUSE:
        pytest.skip("the port is taken")

    finding = judge_http(door, {})

    assert finding.verdict is Verdict.PROBLEM
    assert host in finding.seen
    assert "127.0.0.1" in finding.seen


def test_engines_take_the_next_free_ports_for_their_metrics() -> None:
    free = judge_metrics("127.0.0.1", 9795, 2, refusing())
    shifted = judge_metrics("127.0.0.1", 9795, 2, refusing(9795, 9797))

    assert free.verdict is Verdict.OK
    assert shifted.verdict is Verdict.WARNING
    assert "9796, 9798" in shifted.seen


def test_too_few_free_ports_for_metrics_are_a_problem() -> None:
    all_but_one = refusing(*range(9796, 9795 + PORTS))

    assert judge_metrics("127.0.0.1", 9795, 2, all_but_one).verdict is Verdict.PROBLEM


def test_routers_need_ports_of_their_own() -> None:
    assert judge_routers(8795, 3, refusing(30_001)).verdict is Verdict.OK
    assert judge_routers(30_000, 1, refusing(*range(30_001, 31_001))).verdict is Verdict.PROBLEM


def test_engines_listen_on_an_address_of_this_machine() -> None:
    assert judge_transport("127.0.0.1", try_bind).verdict is Verdict.OK
    assert judge_transport("203.0.113.7", try_bind).verdict is Verdict.PROBLEM
