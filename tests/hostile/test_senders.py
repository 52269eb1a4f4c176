"""Senders that take their time, and small bodies that would become large: over sockets, against
the application in a process of its own."""

from __future__ import annotations

import gzip
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from backports import zstd

from jevserve.api.body import BodyLimits
from jevserve.api.door import LINGER_S
from tests.hostile.bodies import bomb
from tests.hostile.cases import Case
from tests.hostile.door import READ_S
from tests.hostile.exchange import Answer, address_of, exchange, parsed
from tests.hostile.fuzz import door

MIB = 2**20

#: Seconds that this machine's other work may add to anything.
SLACK_S = 3.0

Address = tuple[str, int]

VALID = json.dumps({"state": "s", "questions": {"q": {"type": "noul", "instructions": "x"}}})


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Address, psutil.Process]]:
    with door() as (url, process):
        yield address_of(url), process


def send(address: Address, body: bytes, encoding: str = "identity") -> Answer:
    kind = (b"content-type", b"application/json")
    made = Case("", body, (kind, (b"content-encoding", encoding.encode())))
    return exchange(address, made.wire("door"))


def byte_by_byte(client: socket.socket, body: bytes) -> None:
    """Send until something comes back: one byte as often as a client that means ill would."""
    for i in range(len(body)):
        if select.select([client], [], [], READ_S / 20)[0]:
            return
        client.sendall(body[i : i + 1])


def half_of_it(client: socket.socket, body: bytes) -> None:
    client.sendall(body[: len(body) // 2])


def nothing(client: socket.socket, body: bytes) -> None:
    pass


def ending(address: Address, feed: Callable[[socket.socket, bytes], None]) -> Answer:
    """Promise a body, feed as much of it as ``feed`` does, and read until the server closes."""
    wire = Case("", VALID.encode() * 20).wire("door")
    head, _, body = wire.partition(b"\r\n\r\n")
    began, data = time.monotonic(), b""
    with socket.create_connection(address, timeout=READ_S + LINGER_S + SLACK_S) as client:
        client.sendall(head + b"\r\n\r\n")
        feed(client, body)
        while piece := client.recv(2**16):
            data += piece
    return parsed(data, time.monotonic() - began)


@pytest.mark.parametrize("feed", [byte_by_byte, half_of_it, nothing])
def test_senders_that_never_finish_are_told_and_hold_up_nobody(
    started: tuple[Address, psutil.Process], feed: Callable[[socket.socket, bytes], None]
) -> None:
    address, _ = started
    with ThreadPoolExecutor(20) as pool:
        slow = [pool.submit(ending, address, feed) for _ in range(20)]
        meanwhile = []
        while not all(s.done() for s in slow):
            meanwhile.append(send(address, VALID.encode()))
    for answer in (s.result() for s in slow):
        assert answer.status == 408
        assert answer.json()["detail"]["error_type"] == "body_timeout"
        # Timers of the event loop count in milliseconds.
        assert READ_S - 0.01 < answer.seconds < READ_S + LINGER_S + SLACK_S
    assert {a.status for a in meanwhile} == {200}
    assert max(a.seconds for a in meanwhile) < READ_S + SLACK_S


def zeros(pack: Callable[[bytes], bytes]) -> bytes:
    return pack(bytes(256 * MIB))


BOMBS = {
    "gzip": ("gzip", lambda: zeros(lambda data: gzip.compress(data, 1))),
    "gzip in members": ("gzip", lambda: gzip.compress(bytes(24 * MIB), 1) * 15),
    "zstd": ("zstd", lambda: bomb(4 * 2**30)),
    "zstd in frames": ("zstd", lambda: bomb(24 * MIB) * 15),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_by_its_size_and_costs_little_more_memory_than_the_limit(
    started: tuple[Address, psutil.Process], name: str
) -> None:
    address, process = started
    encoding, make = BOMBS[name]
    body = make()
    assert len(body) < 2 * MIB
    before = forget_peak(process)
    answer = send(address, body, encoding)
    assert answer.status == 413
    assert answer.json()["detail"]["error_type"] == "body_too_large"
    assert answer.seconds < SLACK_S
    # The body, what was decoded of it, and room for the allocator.
    assert peak(process) - before < BodyLimits().decoded + len(body) + 16 * MIB


DEEP = {
    "arrays": (b'{"state": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    "objects": b'{"state":' * 10_000 + b"1" + b"}" * 10_000,
    "never closed": b"[" * 10_000,
}


@pytest.mark.parametrize("encoding", ["identity", "gzip", "zstd"])
@pytest.mark.parametrize("shape", DEEP)
def test_ten_thousand_levels_are_refused_without_going_down_them(
    started: tuple[Address, psutil.Process], shape: str, encoding: str
) -> None:
    address, process = started
    pack = {"identity": bytes, "gzip": gzip.compress, "zstd": zstd.compress}[encoding]
    before = forget_peak(process)
    answer = send(address, pack(DEEP[shape]), encoding)
    assert answer.status == 422
    assert [i["type"] for i in answer.json()["detail"]] == ["json_too_deep"]
    assert answer.seconds < SLACK_S
    assert peak(process) - before < 4 * MIB


def forget_peak(process: psutil.Process) -> int:
    """Resident bytes now; from here on ``peak`` counts (proc(5): 5 resets the high-water mark)."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return process.memory_info().rss


def peak(process: psutil.Process) -> int:
    """Most resident bytes since ``forget_peak``."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
