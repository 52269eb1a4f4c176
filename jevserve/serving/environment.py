"""Environment and ports of the processes of a service.

Ray reads these variables when its modules are imported, so they must be set before.
"""

from __future__ import annotations

import socket
from pathlib import Path

#: Why each is set: Serve's Python proxy costs 20 ms a request, HAProxy under 1 ms; user code on
#: the replica's main loop saves two thread hops; Ray runs workers at nice 15 unless told not to.
#: HAProxy stops relaying a client's departure once a body outgrows its buffer, and the work goes
#: on unwanted, so the buffer holds common bodies. A killed replica's vLLM process would live on
#: and keep its memory if Ray did not clean up process groups.
SERVE_ENVIRONMENT = {
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_HAPROXY_TUNE_BUFSIZE": str(128 * 2**10),
    "RAY_process_group_cleanup_enabled": "1",
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def local_environment(run_dir: Path) -> dict[str, str]:
    """Variables of a service on one machine, beside other services on the same machine.

    HAProxy's files and its statistics ports are fixed by default and would collide.
    """
    stats, metrics = free_ports(2)
    return SERVE_ENVIRONMENT | {
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(run_dir / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(run_dir / "haproxy.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(run_dir),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(run_dir / "server-state"),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(stats),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics),
        # Ray calls it a failure that a stopped Serve controller stops, at every stop.
        "RAY_DEDUP_LOGS_SKIP_REGEX": r"Task ServeController\.\w+ failed",
        # Nothing balances in front of a local service, so a stop need not wait for deregistration.
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "0",
    }


def free_ports(n: int) -> list[int]:
    """``n`` distinct TCP ports that are free now."""
    sockets = [socket.socket() for _ in range(n)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [int(s.getsockname()[1]) for s in sockets]
    finally:
        for s in sockets:
            s.close()


def try_bind(host: str, port: int) -> OSError | None:
    """What the system says to listening there; None is success."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(address)
    except OSError as error:
        return error
    return None
