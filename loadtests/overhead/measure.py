"""Cells and their rounds: every server is started, warmed, loaded and stopped in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from loadtests.overhead.load import ANSWER_FILE, STATES, body, checked_answer, drive

ROOT = Path(__file__).resolve().parents[2]

CONNECTIONS = (1, 16, 64)

#: What Ray Serve does by default; ``jevserve serve`` turns both off.
THREADS = {
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "1",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "1",
}

PYTHON_PROXY = {"RAY_SERVE_ENABLE_HA_PROXY": "0"}

#: Where HAProxy finds a router on its node; asked directly, HAProxy is left out.
DIRECT_PORT = 30_000


@dataclass(frozen=True)
class Server:
    """One layout.

    Attributes:
        name: of the row.
        kind: what ``servers.py`` starts.
        title: for readers.
        environment: of the server's processes.
        direct: also measured past the ingress, at the router's own port, under this name.
    """

    name: str
    kind: str
    title: str
    environment: dict[str, str] = field(default_factory=dict)
    direct: str = ""


SERVERS = (
    Server("bare", "bare", "bare uvicorn: parse the JSON, answer the same JSON"),
    Server("door", "door", "our HTTP layer and planning on uvicorn, engine in the same process"),
    Server(
        "haproxy-connection",
        "connection",
        "HAProxy, own connection (default)",
        direct="direct-connection",
    ),
    Server("haproxy-handle", "handle", "HAProxy, Ray handle", direct="direct-handle"),
    Server("proxy-connection", "connection", "Serve's Python proxy, own connection", PYTHON_PROXY),
    Server("proxy-handle", "handle", "Serve's Python proxy, Ray handle", PYTHON_PROXY),
    Server(
        "threads-connection", "connection", "HAProxy, own connection, Serve's threads on", THREADS
    ),
    Server("threads-handle", "handle", "HAProxy, Ray handle, Serve's threads on", THREADS),
)

TITLES = {s.name: s.title for s in SERVERS} | {
    "direct-connection": "router's own port, own connection",
    "direct-handle": "router's own port, Ray handle",
}


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Attributes:
        row: name of the layout.
        cpu_ms: CPU time of all the layout's processes per request, milliseconds.
    """

    round: int
    row: str
    state: str
    connections: int
    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    errors: int
    cpu_ms: float


def measure(ledger: Path, rounds: int, seconds: float, rows: tuple[str, ...]) -> None:
    """Run what the ledger (a file of JSON lines) does not hold yet."""
    answer = real_answer()
    for round in range(rounds):
        for server in SERVERS:
            if rows and server.name not in rows:
                continue
            wanted = {server.name, server.direct} - {""}
            if wanted <= {c.row for c in cells(ledger) if c.round == round}:
                continue
            for cell in one_server(server, round, seconds, answer):
                with ledger.open("a") as out:
                    out.write(json.dumps(asdict(cell)) + "\n")


def cells(ledger: Path) -> list[Cell]:
    if not ledger.exists():
        return []
    return [Cell(**json.loads(line)) for line in ledger.read_text().splitlines()]


def real_answer() -> bytes:
    """What our own HTTP layer answers, for the bare application to answer too."""
    door = next(s for s in SERVERS if s.name == "door")
    with running(door, b"{}") as (url, _):
        return json.dumps(checked_answer(f"{url}/v1/systemone", body("short"))).encode()


def one_server(server: Server, round: int, seconds: float, answer: bytes) -> list[Cell]:
    measured = []
    with running(server, answer) as (url, family):
        addresses = {server.name: url}
        if server.direct:
            addresses[server.direct] = direct_address(family)
        for row, address in addresses.items():
            for state in STATES:
                target, content = f"{address}/v1/systemone", body(state)
                checked_answer(target, content)
                drive(target, content, 16, 1)  # warm
                for connections in CONNECTIONS:
                    before = cpu_seconds(family)
                    seen = drive(target, content, connections, seconds)
                    used = cpu_seconds(family) - before
                    if seen.errors:
                        raise SystemExit(f"{row}, {connections} connections: {seen.errors} errors")
                    cell = Cell(
                        round, row, state, connections, **asdict(seen),
                        cpu_ms=1000 * used / max(seen.requests, 1),
                    )  # fmt: skip
                    measured.append(cell)
                    say(cell)
    return measured


def say(cell: Cell) -> None:
    text = (
        f"round {cell.round + 1}  {cell.row:20} {cell.state:5} {cell.connections:3} at once  "
        f"{cell.requests / cell.seconds:7.0f}/s  p50 {cell.p50_ms:7.2f} ms  "
        f"p99 {cell.p99_ms:7.2f} ms  cpu {cell.cpu_ms:.2f} ms"
    )
    print(text, file=sys.stderr, flush=True)


@contextmanager
def running(server: Server, answer: bytes) -> Iterator[tuple[str, list[psutil.Process]]]:
    """A server's address and all its processes."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(answer)
        file.flush()
        environment = os.environ | {"PYTHONPATH": str(ROOT), ANSWER_FILE: file.name}
        command = [sys.executable, "-m", "loadtests.overhead.servers", server.kind]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | server.environment,
            cwd=ROOT,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("ready "):
                    break
            else:
                raise SystemExit(f"{server.name} did not start")
            main = psutil.Process(process.pid)
            yield line.split()[1], [main, *main.children(recursive=True)]
        finally:
            process.terminate()
            process.wait(60)


def direct_address(family: list[psutil.Process]) -> str:
    """The port at which the router itself listens for HAProxy."""
    router = next(p for p in family if "ServeReplica:jevserve:Router" in " ".join(p.cmdline()))
    ports = {c.laddr.port for c in router.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    for port in sorted(p for p in ports if p >= DIRECT_PORT):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).json() == {"status": "ok"}:
                return f"http://127.0.0.1:{port}"
        except (httpx.HTTPError, ValueError):
            continue
    raise SystemExit(f"no port of {sorted(ports)} is the router's")


def cpu_seconds(family: list[psutil.Process]) -> float:
    used = 0.0
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        used += times.user + times.system
    return used


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": psutil.virtual_memory().total >> 30,
    }
