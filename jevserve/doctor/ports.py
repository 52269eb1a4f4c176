"""Ports and addresses that a start will listen on, and who holds them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jevserve.doctor.findings import Finding, ok, problem, warning
from jevserve.doctor.processes import Process, is_service, kind, left_behind
from jevserve.serving.environment import try_bind
from jevserve.settings import ServiceSettings
from jevserve.telemetry.engine import PORTS

#: Ports that Ray Serve gives to routers behind HAProxy (``RAY_SERVE_DIRECT_INGRESS_*_HTTP_PORT``).
ROUTER_PORTS = range(30_000, 31_001)

TryBind = Callable[[str, int], OSError | None]


@dataclass(frozen=True)
class Door:
    """The public address of a start, and what keeps it from listening there.

    Attributes:
        error: what the system said to listening, None where it allowed it.
        holder: who listens there already, None where nobody does or this user may not know.
        addresses: of this machine.
        lowest: the first port that anybody may listen on.
        free: a port that could be listened on instead.
    """

    host: str
    port: int
    error: OSError | None
    holder: Process | None
    addresses: tuple[str, ...]
    lowest: int
    free: int


def read_door(host: str, port: int, all: Mapping[int, Process]) -> Door:
    error, lowest = try_bind(host, port), unprivileged_from()
    free = port
    if error is not None:
        above = range(max(port + 1, lowest), 65_536)
        free = next((p for p in above if try_bind("127.0.0.1", p) is None), 8795)
    holder = listener(port, all) if error is not None else None
    return Door(host, port, error, holder, own_addresses(), lowest, free)


def listener(port: int, all: Mapping[int, Process]) -> Process | None:
    """Who listens on a port, as far as this user may know."""
    import psutil  # type: ignore[import-untyped]

    with suppress(psutil.Error):
        for c in psutil.net_connections("tcp"):
            if c.status == psutil.CONN_LISTEN and c.laddr.port == port and c.pid in all:
                return all[c.pid]
    return None


def own_addresses() -> tuple[str, ...]:
    """Addresses of this machine, IPv4 first."""
    import psutil

    every = [a for addresses in psutil.net_if_addrs().values() for a in addresses]
    return tuple(
        address
        for family in (socket.AF_INET, socket.AF_INET6)
        for address in sorted(a.address.partition("%")[0] for a in every if a.family == family)
    )


def unprivileged_from() -> int:
    """The first port that anybody may listen on."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    except (OSError, ValueError):
        return 1024


def judge_http(door: Door, all: Mapping[int, Process]) -> Finding:
    host, error = f"[{door.host}]" if ":" in door.host else door.host, door.error
    where = f"{host}:{door.port}"
    another = f"choose another port: --port {door.free}"
    if error is None:
        return ok("http", f"{where} is free")
    if error.errno == errno.EADDRINUSE:
        who, stop = holder(door.holder, all)
        return problem("http", f"{where} is in use by {who}", f"{stop}, or {another}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return problem(
            "http",
            f"{where} may not be listened on: ports below {door.lowest} need a privilege",
            f"{another}; or give the privilege (CAP_NET_BIND_SERVICE)",
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return problem(
            "http",
            f"{door.host} is no address of this machine ({', '.join(door.addresses[:6])})",
            "choose one of these with --host: 127.0.0.1 for this machine alone, 0.0.0.0 for all",
        )
    return problem("http", f"{where} cannot be listened on: {error.strerror}", another)


def holder(process: Process | None, all: Mapping[int, Process]) -> tuple[str, str]:
    """(who holds a port, how to stop it) in words."""
    if process is None:
        return (
            "a process of another user or another container",
            "find it as root (ss -ltnp) and stop it",
        )
    if kind(process) == "proxy" and left_behind(process, all):
        who = f"HAProxy of a jevserve that was killed (pid {process.pid})"
        return who, f"kill {process.pid}"
    service = service_above(process, all)
    if service is not None:
        return f"another jevserve serve (pid {service.pid})", (
            "that one is checked with jevserve doctor --url; to start a second, stop it "
            f"(kill {service.pid})"
        )
    return f"{process.title} (pid {process.pid})", f"stop it: kill {process.pid}"


def service_above(process: Process, all: Mapping[int, Process]) -> Process | None:
    seen: set[int] = set()
    above = all.get(process.parent)
    while above is not None and above.pid not in seen and not is_service(above):
        seen.add(above.pid)
        above = all.get(above.parent)
    return above if above is not None and is_service(above) else None


def judge_metrics(host: str, first: int, engines: int, bind: TryBind) -> Finding:
    """Engines take the next free ports from the configured one on."""
    free = [p for p in range(first, min(first + PORTS, 65_536)) if bind(host, p) is None][:engines]
    if len(free) < engines:
        return problem(
            "metrics",
            f"of {host}:{first} to {first + PORTS - 1}, {len(free)} are free and {engines} needed",
            "set metrics.engine_port to the beginning of a free range, or metrics.host to an "
            "address of this machine",
        )
    ports = ", ".join(map(str, free[:4])) + (" …" if len(free) > 4 else "")
    if free[0] != first:
        return warning(
            "metrics",
            f"{host}:{first} is taken, so engines will export their metrics at {ports}",
            f"scrape there, or set metrics.engine_port to {free[0]}",
        )
    return ok("metrics", f"{host}:{ports}")


def judge_routers(http_port: int, routers: int, bind: TryBind) -> Finding:
    free = 0
    for port in ROUTER_PORTS:
        free += port != http_port and bind("0.0.0.0", port) is None
        if free >= routers:
            return ok("routers", f"{free} of {routers} found from {ROUTER_PORTS[0]} on")
    return problem(
        "routers",
        f"{free} ports of {ROUTER_PORTS[0]} to {ROUTER_PORTS[-1]} are free, {routers} needed",
        "stop what holds them, or set RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT and "
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT to another range",
    )


def judge_transport(host: str, bind: TryBind) -> Finding:
    error = bind(host, 0)
    if error is None:
        return ok("transport", f"engines can listen on {host}")
    return problem(
        "transport",
        f"engines cannot listen on {host}: {error.strerror}",
        "set transport.host to an address of this machine, or leave it out",
    )


def examine(settings: ServiceSettings, all: Mapping[int, Process]) -> list[Finding]:
    """``settings`` are those of a local start (``serving.local.with_local_resources``)."""
    http, metrics = settings.http, settings.metrics
    engines = sum(m.replicas for m in settings.models)
    return [
        judge_http(read_door(http.host, http.port, all), all),
        judge_metrics(metrics.host, metrics.engine_port, engines, try_bind),
        judge_routers(http.port, settings.router.replicas, try_bind),
        judge_transport(settings.transport.host, try_bind),
    ]
